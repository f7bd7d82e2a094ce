"""Pages in the order in which they are named first."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

__all__ = ["distinct_pages"]


def distinct_pages(pages: Tensor) -> Tensor:
    """Each of `[n]` int64 pages once, where it stands first; waits for a device."""
    found, inverse = cast(
        "tuple[Tensor, Tensor]",
        torch.unique(pages, return_inverse=True),  # pyright: ignore[reportUnknownMemberType]
    )
    places = torch.arange(pages.shape[0], device=pages.device)
    first = places.new_full((found.shape[0],), pages.shape[0])
    first.scatter_reduce_(0, inverse, places, "amin")
    return found[first.argsort()]
