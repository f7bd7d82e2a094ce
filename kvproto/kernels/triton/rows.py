"""How kernels walk rows: as machine words, as wide as alignment allows."""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from .launch import next_power_of_2
from .tiles import TileShape

__all__ = [
    "BLOCK_BYTES",
    "WIDEST",
    "CastShape",
    "RowShape",
    "address",
    "along_given",
    "cast_shape",
    "pieces_apart",
    "row_shape",
    "rows_of_a_tile",
    "scaled",
    "walked",
    "word_type",
]

WIDEST = 16
"""Bytes of the widest access of a thread."""

_WORDS = {8: tl.int64, 4: tl.int32, 2: tl.int16, 1: tl.int8}

BLOCK_BYTES = 4096
"""Of a row that a program has in registers at a time."""


class RowShape(NamedTuple):
    """Rows of two tensors that are copied into each other, counted in words of `WORD` bytes.

    Rows of the target are dense, `PITCH` apart. Those that are given consist of pieces of
    `INNER`; pieces and rows are apart by multiples of `UNIT`: so much is read at once. A
    program has `BLOCK` of the `WIDTH` in registers at a time.
    """

    PITCH: int
    WIDTH: int
    INNER: int
    UNIT: int
    BLOCK: int
    WORD: int

    @property
    def unit_bytes(self) -> int:
        """Bytes of the widest access."""
        return self.UNIT * self.WORD

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.WIDTH * self.WORD


class CastShape(NamedTuple):
    """Rows of numbers that become rows of another type, counted in elements.

    As `RowShape` otherwise; rows of the target may lie in tiles instead.
    """

    PITCH: int
    WIDTH: int
    INNER: int
    UNIT: int
    BLOCK: int
    TILES: TileShape | None


def walked(rows: Tensor) -> Tensor:
    """`[n, ...]` itself, or dense where its rows have more strides than kernels walk."""
    return rows if _pieces(rows.shape[1:], rows.stride()[1:]) else rows.contiguous()


def pieces_apart(rows: Tensor, unit: int) -> int:
    """How far apart the pieces of `walked` rows are, in units of so many bytes; 0 for one piece."""
    inner, outer = _pieces(rows.shape[1:], rows.stride()[1:]) or (1, 1)
    return 0 if inner == outer else outer * rows.itemsize // unit


@triton.jit
def along_given(column, apart, SHAPE: tl.constexpr):
    """Where a word of a given row is, from its first; its pieces are `apart`, in units."""
    if SHAPE.INNER < SHAPE.WIDTH:
        piece = (column // SHAPE.INNER).to(tl.int64)
        column = piece * apart * SHAPE.UNIT + column % SHAPE.INNER
    return column


def row_shape(target: Tensor, given: Tensor, operation: str) -> RowShape:
    """For `[slots, ...]` and `walked` `[n, ...]` of one trailing shape and dtype, rows not empty.

    :raises ValueError: for a target whose rows are not dense.
    """
    aligned = gcd(target.data_ptr(), given.data_ptr(), WIDEST)
    strides = target.stride(), given.stride()
    return _row_shape(operation, target.shape[1:], *strides, target.itemsize, aligned)


def cast_shape(target: Tensor, given: Tensor, operation: str) -> CastShape:
    """As `row_shape`, for rows whose dtype becomes the target's.

    :raises ValueError: for a target whose rows are not dense.
    """
    width = prod(target.shape[1:])
    _check_dense(operation, target.shape[1:], target.stride()[1:])
    inner, outer = _pieces(given.shape[1:], given.stride()[1:]) or (width, width)
    size = given.itemsize
    strides = (given.stride(0), inner, outer, width)
    load = gcd(given.data_ptr(), WIDEST, *(each * size for each in strides))
    block = min(next_power_of_2(width), BLOCK_BYTES // 2)
    return CastShape(target.stride(0), width, inner, max(1, load // size), block, None)


def scaled(shape: RowShape, word: int) -> RowShape:
    """The same in words of so many bytes, of which its own are a multiple."""
    times = shape.WORD // word
    pitch, width, inner, unit = (each * times for each in shape[:4])
    return RowShape(pitch, width, inner, unit, shape.BLOCK * times, word)


def address(tensor: Tensor, word: int) -> Any:
    """Where the tensor begins, for a kernel that reads words of so many bytes."""
    return triton.reinterpret(tensor, _WORDS[word])


def word_type(word: int) -> Any:
    """Triton's integers of so many bytes."""
    return _WORDS[word]


def rows_of_a_tile(tile_bytes: int, row_bytes: int) -> int:
    """How many rows make a tile of so many bytes: a power of two, at least 1."""
    return max(1, tile_bytes // next_power_of_2(row_bytes))


@lru_cache(maxsize=1024)
def _row_shape(
    operation: str,
    trailing: tuple[int, ...],
    target: tuple[int, ...],
    given: tuple[int, ...],
    itemsize: int,
    aligned: int,
) -> RowShape:
    width = prod(trailing)
    _check_dense(operation, trailing, target[1:])
    inner, outer = _pieces(trailing, given[1:]) or (width, width)
    elements = (target[0], width, inner, outer)
    unit = gcd(aligned, given[0] * itemsize, *(each * itemsize for each in elements))
    word = min(unit, 8)
    pitch, width, inner, _ = (each * itemsize // word for each in elements)
    block = min(next_power_of_2(width), BLOCK_BYTES // word)
    return RowShape(pitch, width, inner, unit // word, block, word)


def _check_dense(operation: str, trailing: tuple[int, ...], strides: tuple[int, ...]) -> None:
    width = prod(trailing)
    if _pieces(trailing, strides) != (width, width):
        raise ValueError(
            f"{operation}: rows {tuple(trailing)} of the target have strides {strides}; served "
            "are dense rows, at any distance from each other; nothing was written"
        )


@lru_cache(maxsize=1024)
def _pieces(extents: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int] | None:
    """The length of the dense pieces of a row and how far they are apart; None for more levels."""
    levels: list[tuple[int, int]] = []
    for extent, stride in zip(reversed(extents), reversed(strides), strict=True):
        if extent == 1:
            continue
        if levels and stride == levels[-1][0] * levels[-1][1]:
            levels[-1] = (levels[-1][0] * extent, levels[-1][1])
        else:
            levels.append((extent, stride))
    if not levels or levels[0][1] != 1:
        levels.insert(0, (1, 1))
    if len(levels) == 1:
        return levels[0][0], levels[0][0]
    return (levels[0][0], levels[1][1]) if len(levels) == 2 else None
