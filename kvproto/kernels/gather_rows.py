"""Read rows at locations."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["gather_rows"]


def gather_rows(source: Tensor, loc: Tensor) -> Tensor:
    """`source[loc[i]]` as fresh rows; a location of 0 or below reads the reserved slot.

    `source` is `[slots, ...]`, its slot 0 zero; `loc` is `[n]`, int32 or int64, below `slots`.
    """
    return source.index_select(0, loc.clamp(min=0).to(torch.int64))
