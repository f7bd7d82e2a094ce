"""Read rows at locations."""

from __future__ import annotations

import torch
from torch import Tensor

from .on_host import is_watched

__all__ = ["gather_rows"]


def gather_rows(source: Tensor, loc: Tensor) -> Tensor:
    """`source[loc[i]]` as fresh rows; a location of 0 or below reads the reserved slot.

    `source` is `[slots, ...]`, its slot 0 zero; `loc` is `[n]`, int32 or int64, below `slots`.

    :raises IndexError: on the CPU, for a location past the last row.
    """
    if loc.is_cpu and not is_watched():
        try:
            return source.index_select(0, loc)
        except IndexError:
            pass  # padding, or past the end: what follows tells which
    return source.index_select(0, loc.clamp(min=0).to(torch.int64))
