"""Rows that are moved within their buffers: where they lie, and which pairs of them are moved."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from ..row_tiles import RowTiles
from .rows import WIDEST, row_shape
from .tiles import TileShape, along_row, along_tokens, tile_shape, tile_word

__all__ = ["MovedShape", "along", "dense_shape", "pairs", "row_at", "tiled_shape"]


class MovedShape(NamedTuple):
    """Rows of `WIDTH` words of `WORD` bytes, `PITCH` apart and dense, or where `TILES` say.

    Buffers begin at a multiple of `UNIT` words, which is the widest access.
    """

    PITCH: int
    WIDTH: int
    UNIT: int
    WORD: int
    TILES: TileShape | None


@triton.jit
def row_at(slot, SHAPE: tl.constexpr):
    """Where the row of a slot begins, int64 both."""
    at = slot * SHAPE.PITCH
    if SHAPE.TILES is not None:
        page = slot // SHAPE.TILES.PAGE
        token = slot - page * SHAPE.TILES.PAGE
        at = page * SHAPE.TILES.PAGE_STRIDE + along_tokens(token, SHAPE.TILES)
    return at


@triton.jit
def along(column, SHAPE: tl.constexpr):
    """Where a word of a row is, from its first."""
    if SHAPE.TILES is not None:
        column = along_row(column, SHAPE.TILES)
    return column


@triton.jit
def pairs(tgt_loc, src_loc, start, n, slots, PAIRS: tl.constexpr):
    """Targets, sources and which of them are moved; a source below 0 reads the reserved slot."""
    pair = start + tl.arange(0, PAIRS)
    target = tl.load(tgt_loc + pair, mask=pair < n, other=0).to(tl.int64)
    source = tl.load(src_loc + pair, mask=pair < n, other=0).to(tl.int64)
    source = tl.where(source > 0, source, 0)
    return target, source, (target > 0) & (target < slots) & (source < slots)


def dense_shape(buffer: Tensor, operation: str) -> MovedShape:
    """Of rows `[slots, ...]`.

    :raises ValueError: where they are not dense.
    """
    shape = row_shape(buffer, buffer, operation)
    return MovedShape(shape.PITCH, shape.WIDTH, shape.UNIT, shape.WORD, None)


def tiled_shape(buffer: Tensor, tiles: RowTiles) -> MovedShape:
    """Of rows in tiles of a dense buffer."""
    word = tile_word(buffer, tiles)
    shape = tile_shape(tiles, buffer.itemsize, word)
    unit = gcd(WIDEST, buffer.data_ptr(), tiles.unit * buffer.itemsize) // word
    return MovedShape(0, shape.WIDTH, unit, word, shape)
