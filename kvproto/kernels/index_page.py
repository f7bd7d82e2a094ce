"""Where keys and scales lie in an index page: all keys of the page first, then all scales."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["SCALE_BYTES", "PagePart", "index_page_bytes", "page_parts"]

SCALE_BYTES = 4
"""One float32 per key."""


def index_page_bytes(index_page_size: int, index_head_dim: int) -> int:
    """Bytes of a page of fp8 keys and their scales; 64 keys of 128 make 8448."""
    return index_page_size * (index_head_dim + SCALE_BYTES)


class PagePart(NamedTuple):
    """One of the two blocks of every page, as rows of equal units of bytes.

    Token `t` of page `p` has the `per_token` rows from `p * per_page + first + t * per_token`.
    """

    units: Tensor
    per_page: int
    first: int
    per_token: int
    page_size: int

    @property
    def width(self) -> int:
        """Bytes of one token."""
        return self.per_token * self.units.shape[1]

    def rows(self, slots: Tensor) -> Tensor:
        """`[n * per_token]`, int64: the rows of `[n]` index slots, token after token."""
        wide = slots.to(torch.int64)
        page = wide.div(self.page_size, rounding_mode="floor")
        start = page * self.per_page + self.first + (wide - page * self.page_size) * self.per_token
        steps = torch.arange(self.per_token, device=slots.device)
        return (start.unsqueeze(-1) + steps).flatten()


def page_parts(pages: Tensor, index_head_dim: int) -> tuple[PagePart, PagePart]:
    """The keys and the scales of uint8 `[pages, bytes of a page]`."""
    page_bytes = pages.shape[1]
    page_size = page_bytes // (index_head_dim + SCALE_BYTES)
    key_bytes = page_size * index_head_dim
    return (
        _part(pages, 0, index_head_dim, page_size),
        _part(pages, key_bytes, SCALE_BYTES, page_size),
    )


def _part(pages: Tensor, offset: int, width: int, page_size: int) -> PagePart:
    # The widest unit in which every token of the part begins and ends on a row.
    unit = gcd(pages.shape[1], offset, width)
    units = pages.view(-1, unit)
    return PagePart(units, pages.shape[1] // unit, offset // unit, width // unit, page_size)
