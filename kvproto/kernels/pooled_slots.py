"""Where the index key of a group of tokens is kept."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["places_in_group", "pooled_slots"]


def places_in_group(loc: Tensor, index_kpool: int) -> Tensor:
    """Which of its group of `index_kpool` tokens each is."""
    return loc.remainder(index_kpool)


def pooled_slots(loc: Tensor, index_kpool: int) -> Tensor:
    """Of a group's last token the slot of its key, `loc // index_kpool`; 0 for every other token.

    `loc` is of any shape, int32 or int64; 0 and below give 0. Fixed-shape.
    """
    is_last = (loc > 0) & (places_in_group(loc, index_kpool) == index_kpool - 1)
    return torch.where(is_last, loc.div(index_kpool, rounding_mode="floor"), 0)
