"""How the key or value rows of a layer lie in memory: shape and tiles, for each layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kvproto.kernels import RowTiles

__all__ = [
    "LAYOUTS",
    "PACKED_BYTES",
    "RowGeometry",
    "RowKind",
    "RowLayout",
    "RowLayoutName",
    "misfit",
]

RowKind: TypeAlias = Literal["key", "value"]

RowLayoutName: TypeAlias = Literal["nhd", "hnd", "paged_nhd", "vectorized_5d"]

LAYOUTS: tuple[RowLayoutName, ...] = ("nhd", "hnd", "paged_nhd", "vectorized_5d")
"""The layouts with a buffer of its own for each layer, of keys and of values."""

PACKED_BYTES = 16
"""What one vector load takes: `vectorized_5d` keeps so many bytes of a row together."""


@dataclass(frozen=True, slots=True)
class RowGeometry:
    """One kind of rows: `pages` of `page_size` tokens, and what a token has of them.

    The reserved page counts.
    """

    kind: RowKind
    pages: int
    page_size: int
    heads: int
    width: int
    itemsize: int

    @property
    def packed(self) -> int:
        """Elements that `vectorized_5d` keeps together: 8 of bf16, 16 of fp8."""
        return PACKED_BYTES // self.itemsize


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The `shape` of a layer's buffer, and where a token's row lies in it, in elements.

    `tiles.row` is one tile of heads and then those of a head's elements.
    """

    shape: tuple[int, ...]
    tiles: RowTiles

    @classmethod
    def of(cls, name: RowLayoutName, rows: RowGeometry) -> RowLayout:
        """The layout of that name.

        `nhd` `[slots, heads, width]`, `paged_nhd` `[pages, page, heads, width]`, `hnd` `[pages,
        heads, page, width]`; `vectorized_5d`, with x = 16 bytes of elements, keys `[pages, heads,
        width / x, page, x]` and values `[pages, heads, page / x, width, x]`.
        """
        match name:
            case "nhd":
                return _dense(rows, (rows.pages * rows.page_size,))
            case "paged_nhd":
                return _dense(rows, (rows.pages, rows.page_size))
            case "hnd":
                return _by_head(rows)
            case "vectorized_5d" if rows.kind == "key":
                return _packed_along_width(rows)
            case "vectorized_5d":
                return _packed_along_tokens(rows)

    @property
    def is_dense_by_slot(self) -> bool:
        """Whether the rows of all slots follow each other without a gap."""
        return self.tiles.unit == self.tiles.row_elements


def misfit(name: RowLayoutName, page_size: int, widths: tuple[int, int], itemsize: int) -> str:
    """Why rows of key and value `widths` cannot lie so in pages; "" where they can."""
    if name not in LAYOUTS:
        return f"kv_cache_layout={name!r}: must be one of {', '.join(LAYOUTS)}"
    if name != "vectorized_5d":
        return ""
    packed = PACKED_BYTES // itemsize
    named = {"page_size": page_size, "head_dim": widths[0], "v_head_dim": widths[1]}
    wrong = [f"{key}={value}" for key, value in named.items() if value % packed]
    if not wrong:
        return ""
    return (
        f"vectorized_5d keeps {packed} elements of {itemsize} bytes together, of keys along a row "
        f"and of values along a page: {', '.join(wrong)} must be a multiple of {packed}"
    )


def _dense(rows: RowGeometry, slots: tuple[int, ...]) -> RowLayout:
    row = rows.heads * rows.width
    tiles = RowTiles(
        rows.page_size * row,
        ((rows.page_size, row),),
        ((rows.heads, rows.width), (rows.width, 1)),
    )
    return RowLayout((*slots, rows.heads, rows.width), tiles)


def _by_head(rows: RowGeometry) -> RowLayout:
    page, width = rows.page_size, rows.width
    tiles = RowTiles(
        rows.heads * page * width,
        ((page, width),),
        ((rows.heads, page * width), (width, 1)),
    )
    return RowLayout((rows.pages, rows.heads, page, width), tiles)


def _packed_along_width(rows: RowGeometry) -> RowLayout:
    page, width, x = rows.page_size, rows.width, rows.packed
    tiles = RowTiles(
        rows.heads * page * width,
        ((page, x),),
        ((rows.heads, page * width), (width // x, page * x), (x, 1)),
    )
    return RowLayout((rows.pages, rows.heads, width // x, page, x), tiles)


def _packed_along_tokens(rows: RowGeometry) -> RowLayout:
    page, width, x = rows.page_size, rows.width, rows.packed
    tiles = RowTiles(
        rows.heads * page * width,
        ((page // x, width * x), (x, 1)),
        ((rows.heads, page * width), (width, x)),
    )
    return RowLayout((rows.pages, rows.heads, page // x, width, x), tiles)
