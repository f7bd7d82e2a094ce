"""How kernels walk the two blocks of an index page."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from kvproto.kernels.index_page import (
    KEY_TILE,
    SCALE_BYTES,
    IndexLayout,
    index_page_size,
    key_tile,
)

from .launch import next_power_of_2
from .rows import WIDEST

__all__ = [
    "PartShape",
    "dense_tokens",
    "key_bytes_shape",
    "page_shapes",
    "place_in_page",
    "place_in_part",
    "within",
]


class PartShape(NamedTuple):
    """The keys or the scales of pages, counted in words of `WORD` bytes.

    Pages are `PITCH` apart and have `PAGE_SIZE` tokens of `WIDTH`, from `FIRST` on. `TILE` tokens
    lie together in pieces of `PIECE`: one token in one piece, where they are not tiled. Rows
    outside of pages are a multiple of `UNIT` apart: so much is read or written at once. `BLOCK`
    is what a program has of `WIDTH`.
    """

    PAGE_SIZE: int
    PITCH: int
    FIRST: int
    WIDTH: int
    TILE: int
    PIECE: int
    UNIT: int
    BLOCK: int
    WORD: int

    @property
    def unit_bytes(self) -> int:
        """Bytes of the widest access."""
        return self.UNIT * self.WORD


def page_shapes(
    pages: Tensor, keys: Tensor | int, scales: Tensor | None, layout: IndexLayout
) -> tuple[PartShape, PartShape]:
    """Of keys and of scales, for rows `[n, width]` and `[n, 4]` that go there or come from there.

    Or for keys of so many bytes that stay in pages.
    """
    width = keys if isinstance(keys, int) else keys.shape[1]
    size, page_bytes = index_page_size(pages, width), pages.shape[1]
    tile = key_tile(size, width, layout)
    aligned = gcd(pages.data_ptr(), page_bytes, WIDEST)
    key_unit = gcd(aligned, width, *_apart(keys))
    scale_unit = gcd(aligned, size * width, SCALE_BYTES, *_apart(scales))
    place = size, page_bytes
    return (
        _shape(place, 0, width, (tile, KEY_TILE if tile > 1 else width), key_unit),
        _shape(place, size * width, SCALE_BYTES, (1, SCALE_BYTES), scale_unit),
    )


def key_bytes_shape(keys: PartShape) -> PartShape:
    """The keys counted in bytes, for a kernel that makes them one by one."""
    word = keys.WORD
    return keys._replace(
        PITCH=keys.PITCH * word,
        WIDTH=keys.WIDTH * word,
        PIECE=keys.PIECE * word,
        UNIT=keys.UNIT * word,
        BLOCK=keys.BLOCK * word,
        WORD=1,
    )


def dense_tokens(rows: Tensor) -> Tensor:
    """`[n, width]` itself, or dense where the bytes of a row are apart."""
    return rows if rows.stride(1) == 1 else rows.contiguous()


@triton.jit
def place_in_page(slot, PART: tl.constexpr):
    """Where the first word of each slot is, from the first page on; slots are int64."""
    page = slot // PART.PAGE_SIZE
    token = slot - page * PART.PAGE_SIZE
    tiles = token // PART.TILE * (PART.TILE * PART.WIDTH)
    return page * PART.PITCH + PART.FIRST + tiles + token % PART.TILE * PART.PIECE


@triton.jit
def place_in_part(column, PART: tl.constexpr):
    """Where a word of a token is, from its first."""
    if PART.TILE > 1:
        column = column // PART.PIECE * (PART.TILE * PART.PIECE) + column % PART.PIECE
    return column


@triton.jit
def within(kept, PART: tl.constexpr):
    """`[tokens, BLOCK]`: the words of the tokens that are kept."""
    return kept[:, None] & (tl.arange(0, PART.BLOCK) < PART.WIDTH)[None, :]


def _apart(rows: Tensor | int | None) -> tuple[int, ...]:
    return (rows.data_ptr(), rows.stride(0)) if isinstance(rows, Tensor) else ()


def _shape(
    place: tuple[int, int], first: int, width: int, tiles: tuple[int, int], unit: int
) -> PartShape:
    (page_size, page_bytes), (tile, piece), word = place, tiles, min(unit, 8)
    return PartShape(
        PAGE_SIZE=page_size,
        PITCH=page_bytes // word,
        FIRST=first // word,
        WIDTH=width // word,
        TILE=tile,
        PIECE=piece // word,
        UNIT=unit // word,
        BLOCK=next_power_of_2(width // word),
        WORD=word,
    )
