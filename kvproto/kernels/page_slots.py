"""Between pages and the token slots on them."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

__all__ = ["page_slots", "pages_of", "pages_touched"]


def pages_of(slots: Tensor, page_size: int) -> Tensor:
    """The page of each slot, int64, same shape, a tensor of its own; -1 is on page -1.

    `slots` is int32 or int64, any strides.
    """
    if page_size & (page_size - 1):
        pages = torch.div(slots, page_size, rounding_mode="floor")
    else:
        # Floors like the division, also below zero, and several times as fast.
        pages = slots >> (page_size.bit_length() - 1)
    return pages.to(torch.int64)


def pages_touched(slots: Tensor, page_size: int) -> Tensor:
    """The page of each slot, once where several in a row are on it; waits for a device.

    Sorting the few that are left is several times as fast as sorting all.
    """
    pages = pages_of(slots, page_size)
    return cast("Tensor", torch.unique_consecutive(pages))  # pyright: ignore[reportUnknownMemberType]


def page_slots(pages: Tensor, offsets: Tensor) -> Tensor:
    """All slots of `[n]` int64 pages, page after page in the given order.

    `offsets` is `0 .. page_size - 1`, int64, on the same device. The result is
    `[n * page_size]`.
    """
    return torch.add(offsets, pages.unsqueeze(1), alpha=offsets.shape[0]).view(-1)
