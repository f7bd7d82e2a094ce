"""How kernels find the rows of pages whose axes are tiled."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from ..row_tiles import RowTiles, Tiles

__all__ = ["TileShape", "along_row", "along_tokens", "tile_shape", "tile_word"]


class TileShape(NamedTuple):
    """`RowTiles` in words of `WORD` bytes; levels of axes are innermost first.

    `ROW` begins with the words that lie together in a row.
    """

    PAGE: int
    PAGE_STRIDE: int
    TOKEN: Tiles
    ROW: Tiles
    WIDTH: int
    WORD: int


@triton.jit
def _along(place, TILES: tl.constexpr):
    """Where an index along an axis leads, in words."""
    at = (place % TILES[0][0]) * TILES[0][1]
    rest = place // TILES[0][0]
    for i in tl.static_range(1, len(TILES)):
        at += (rest % TILES[i][0]) * TILES[i][1]
        rest = rest // TILES[i][0]
    return at


@triton.jit
def along_row(column, TILES: tl.constexpr):
    """From the first word of a row to its others, in the row's own order."""
    return _along(column, TILES.ROW)


@triton.jit
def along_tokens(token, TILES: tl.constexpr):
    """From the first row of a page to its others."""
    return _along(token, TILES.TOKEN)


def tile_word(tensor: Tensor, tiles: RowTiles) -> int:
    """Bytes of the widest word that every row consists of, at most 8."""
    return gcd(8, tensor.data_ptr(), tiles.unit * tensor.itemsize)


@lru_cache(maxsize=1024)
def tile_shape(tiles: RowTiles, itemsize: int, word: int) -> TileShape:
    """For words of so many bytes, of which every unit of a row is some."""
    words = tiles.unit * itemsize // word
    token = tuple((extent, stride * itemsize // word) for extent, stride in tiles.token)
    row = tuple((extent, stride * words) for extent, stride in tiles.steps)
    row = (*row[:-1], (row[-1][0] * words, 1))
    return TileShape(
        tiles.page_size,
        tiles.page_stride * itemsize // word,
        token[::-1],
        row[::-1],
        tiles.row_elements * itemsize // word,
        word,
    )
