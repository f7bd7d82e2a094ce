"""Read rows at locations of a tiled buffer."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..row_tiles import RowTiles
from .launch import Launch, next_power_of_2, the_device
from .rows import BLOCK_BYTES, address, rows_of_a_tile
from .tiles import along_row, along_tokens, tile_shape, tile_word

__all__ = ["gather_tiled_rows_kernel", "plan_gather_tiled_rows"]

_TILE_BYTES = 4096


@triton.jit(do_not_specialize=["n", "slots"])
def gather_tiled_rows_kernel(
    source,
    loc,
    n,
    slots,
    out,
    TILES: tl.constexpr,
    TOKENS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """What is not in `1 .. slots - 1` is zeros, and nothing is read for it."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    page = slot // TILES.PAGE
    first = page * TILES.PAGE_STRIDE + along_tokens(slot - page * TILES.PAGE, TILES)
    for start in tl.static_range(0, TILES.WIDTH, BLOCK):
        column = start + tl.arange(0, BLOCK)
        within = (column < TILES.WIDTH)[None, :]
        place = first[:, None] + along_row(column, TILES)[None, :]
        words = tl.load(source + place, mask=kept[:, None] & within, other=0)
        into = out + (token * TILES.WIDTH)[:, None] + column[None, :]
        tl.store(into, words, mask=(token < n)[:, None] & within)


def plan_gather_tiled_rows(source: Tensor, loc: Tensor, tiles: RowTiles, out: Tensor) -> Launch:
    """What `gather_tiled_rows` returns, into `out`, dense `[n, elements]`, aligned to 16 bytes."""
    word = tile_word(source, tiles)
    shape = tile_shape(tiles, source.itemsize, word)
    n, row_bytes = loc.shape[0], shape.WIDTH * word
    tokens = rows_of_a_tile(_TILE_BYTES, row_bytes)
    return Launch(
        kernel=gather_tiled_rows_kernel,
        grid=(triton.cdiv(n, tokens),),
        arguments={
            "source": address(source, word),
            "loc": loc.contiguous(),
            "n": n,
            "slots": tiles.slots_of(source),
            "out": address(out, word),
        },
        constants={
            "TILES": shape,
            "TOKENS": tokens,
            "BLOCK": min(next_power_of_2(shape.WIDTH), BLOCK_BYTES // word),
        },
        device=the_device("gather_tiled_rows", [source, loc, out]),
    )
