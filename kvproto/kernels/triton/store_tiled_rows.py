"""Write rows to locations of a tiled buffer."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from ..row_tiles import RowTiles
from .launch import Launch, the_device
from .rows import (
    address,
    along_given,
    pieces_apart,
    row_shape,
    rows_of_a_tile,
    scaled,
    walked,
)
from .tiles import along_row, along_tokens, tile_shape, tile_word

__all__ = ["plan_store_tiled_rows", "store_tiled_rows_kernel"]

_TILE_BYTES = 4096


@triton.jit(do_not_specialize=["n", "slots"])
def store_tiled_rows_kernel(
    target,
    loc,
    n,
    slots,
    rows,
    rows_pitch,
    apart,
    TILES: tl.constexpr,
    SHAPE: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """A program has `TOKENS` rows; what is dropped is neither read. distances are in units."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    page = slot // TILES.PAGE
    first = page * TILES.PAGE_STRIDE + along_tokens(slot - page * TILES.PAGE, TILES)
    into = target + first[:, None]
    source = rows + token[:, None] * rows_pitch * SHAPE.UNIT
    for start in tl.static_range(0, SHAPE.WIDTH, SHAPE.BLOCK):
        column = start + tl.arange(0, SHAPE.BLOCK)
        mask = kept[:, None] & (column < SHAPE.WIDTH)[None, :]
        words = tl.load(source + along_given(column, apart, SHAPE)[None, :], mask=mask)
        tl.store(into + along_row(column, TILES)[None, :], words, mask=mask)


def plan_store_tiled_rows(target: Tensor, loc: Tensor, rows: Tensor, tiles: RowTiles) -> Launch:
    """What `store_tiled_rows` does, for locations that it has checked; rows are not empty."""
    rows = walked(rows)
    dense = target.view(-1, *rows.shape[1:])
    shape = row_shape(dense, rows, "store_tiled_rows")
    word = min(shape.WORD, tile_word(target, tiles))
    shape = scaled(shape, word)
    n, tokens = loc.shape[0], rows_of_a_tile(_TILE_BYTES, shape.row_bytes)
    return Launch(
        kernel=store_tiled_rows_kernel,
        grid=(triton.cdiv(n, tokens),),
        arguments={
            "target": address(target, word),
            "loc": loc.contiguous(),
            "n": n,
            "slots": tiles.slots_of(target),
            "rows": address(rows, word),
            "rows_pitch": rows.stride(0) * rows.itemsize // shape.unit_bytes,
            "apart": pieces_apart(rows, shape.unit_bytes),
        },
        constants={
            "TILES": tile_shape(tiles, target.itemsize, word),
            "SHAPE": shape,
            "TOKENS": tokens,
        },
        device=the_device("store_tiled_rows", [target, loc, rows]),
    )
