"""Copy pages into pages whose axes are tiled otherwise."""

from __future__ import annotations

from math import gcd

import triton
import triton.language as tl
from torch import Tensor

from ..row_tiles import RowTiles
from .launch import Launch, next_power_of_2, the_device
from .rows import address
from .tiles import along_row, along_tokens, tile_shape, tile_word

__all__ = ["convert_pages_kernel", "plan_convert_pages"]

_TILE_BYTES, _COLUMNS = 8192, 128


@triton.jit(do_not_specialize=["sources", "targets"])
def convert_pages_kernel(
    source,
    source_pages,
    sources,
    target,
    target_pages,
    targets,
    FROM: tl.constexpr,
    INTO: tl.constexpr,
    TOKENS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Program `(i, t, c)` has a tile of tokens and of columns of the `i`th page.

    Compilers give a read and a write threads of their own where memory runs along other axes.
    """
    old = tl.load(source_pages + tl.program_id(0)).to(tl.int64)
    new = tl.load(target_pages + tl.program_id(0)).to(tl.int64)
    old = tl.where(old > 0, old, 0)
    token = tl.program_id(1).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    column = tl.program_id(2).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    mask = (token < FROM.PAGE)[:, None] & (column < FROM.WIDTH)[None, :]
    mask &= (new > 0) & (new < targets) & (old < sources)
    read = source + old * FROM.PAGE_STRIDE
    place = along_tokens(token, FROM)[:, None] + along_row(column, FROM)[None, :]
    words = tl.load(read + place, mask=mask)
    write = target + new * INTO.PAGE_STRIDE
    place = along_tokens(token, INTO)[:, None] + along_row(column, INTO)[None, :]
    tl.store(write + place, words, mask=mask)


def plan_convert_pages(
    source: Tensor,
    source_tiles: RowTiles,
    source_pages: Tensor,
    target: Tensor,
    target_tiles: RowTiles,
    target_pages: Tensor,
) -> Launch:
    """What `convert_pages` does, for arguments that it has checked; `[n]` pages are dense."""
    word = gcd(tile_word(source, source_tiles), tile_word(target, target_tiles))
    old = tile_shape(source_tiles, source.itemsize, word)
    new = tile_shape(target_tiles, target.itemsize, word)
    columns = min(_COLUMNS, next_power_of_2(old.WIDTH))
    tokens = min(next_power_of_2(old.PAGE), max(1, _TILE_BYTES // word // columns))
    tiles = triton.cdiv(old.PAGE, tokens), triton.cdiv(old.WIDTH, columns)
    return Launch(
        kernel=convert_pages_kernel,
        grid=(source_pages.shape[0], *tiles),
        arguments={
            "source": address(source, word),
            "source_pages": source_pages,
            "sources": source.numel() // source_tiles.page_stride,
            "target": address(target, word),
            "target_pages": target_pages,
            "targets": target.numel() // target_tiles.page_stride,
        },
        constants={"FROM": old, "INTO": new, "TOKENS": tokens, "COLUMNS": columns},
        device=the_device("convert_pages", [source, source_pages, target, target_pages]),
    )
