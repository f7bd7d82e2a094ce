"""Where keys and scales lie in an index page: all keys of the page first, then all scales."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

from kvproto.protocols import IndexLayout

__all__ = [
    "KEY_TILE",
    "SCALE_BYTES",
    "IndexLayout",
    "PagePart",
    "index_page_bytes",
    "index_page_size",
    "key_tile",
    "page_parts",
]

SCALE_BYTES = 4
"""One float32 per key."""

KEY_TILE = 16
"""Keys, and bytes of each, of a preshuffled tile."""


def index_page_bytes(index_page_size: int, index_head_dim: int) -> int:
    """Bytes of a page of fp8 keys and their scales; 64 keys of 128 make 8448."""
    return index_page_size * (index_head_dim + SCALE_BYTES)


def index_page_size(pages: Tensor, index_head_dim: int) -> int:
    """Keys of a page of uint8 `[pages, bytes of a page]`."""
    return pages.shape[1] // (index_head_dim + SCALE_BYTES)


def key_tile(page_size: int, index_head_dim: int, layout: IndexLayout) -> int:
    """How many keys lie in tiles together: 16, or 1 where keys lie one after another.

    :raises ValueError: for pages that are not whole tiles.
    """
    if layout == "token_rows":
        return 1
    if page_size % KEY_TILE or index_head_dim % KEY_TILE:
        raise ValueError(
            f"{page_size} keys of {index_head_dim} bytes on a page: preshuffled, both must be "
            f"multiples of {KEY_TILE}; nothing was written"
        )
    return KEY_TILE


class PagePart(NamedTuple):
    """One of the two blocks of every page, as rows of equal units of bytes.

    Token `t` of page `p` has `per_token` rows, `tile` apart, from `p * per_page + first` and
    what the tokens before it in its tile and in other tiles take.
    """

    units: Tensor
    per_page: int
    first: int
    per_token: int
    page_size: int
    tile: int

    @property
    def width(self) -> int:
        """Bytes of one token."""
        return self.per_token * self.units.shape[1]

    def rows(self, slots: Tensor) -> Tensor:
        """`[n * per_token]`, int64: the rows of `[n]` index slots, token after token."""
        wide = slots.to(torch.int64)
        page = wide.div(self.page_size, rounding_mode="floor")
        token = wide - page * self.page_size
        place = token.remainder(self.tile)
        start = page * self.per_page + self.first + (token - place) * self.per_token + place
        steps = torch.arange(self.per_token, device=slots.device) * self.tile
        return (start.unsqueeze(-1) + steps).flatten()


def page_parts(
    pages: Tensor, index_head_dim: int, layout: IndexLayout
) -> tuple[PagePart, PagePart]:
    """The keys and the scales of uint8 `[pages, bytes of a page]`.

    :raises ValueError: for pages that are not whole tiles, preshuffled.
    """
    page_size = index_page_size(pages, index_head_dim)
    tile = key_tile(page_size, index_head_dim, layout)
    # A tile's units are pieces of 16 bytes; else the widest in which every token begins and ends.
    key_unit = KEY_TILE if tile > 1 else gcd(pages.shape[1], index_head_dim)
    scales = page_size * index_head_dim
    scale_unit = gcd(pages.shape[1], scales, SCALE_BYTES)
    return (
        _part(pages, 0, index_head_dim, key_unit, (page_size, tile)),
        _part(pages, scales, SCALE_BYTES, scale_unit, (page_size, 1)),
    )


def _part(
    pages: Tensor, offset: int, width: int, unit: int, page_and_tile: tuple[int, int]
) -> PagePart:
    counts = pages.shape[1] // unit, offset // unit, width // unit
    return PagePart(pages.view(-1, unit), *counts, *page_and_tile)
