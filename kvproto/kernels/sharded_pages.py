"""Pages whose owners take turns."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["pages_by_owner"]


def pages_by_owner(pages: Tensor, owners: int) -> list[Tensor]:
    """For owner 0, 1 ..: `pages // owners` where `pages % owners` is it, 0 elsewhere; fixed-shape.

    `pages` is `[n]` int64.
    """
    local = torch.div(pages, owners, rounding_mode="floor")
    owner = pages - local * owners
    return [local * (owner == each) for each in range(owners)]
