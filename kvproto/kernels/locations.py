"""Refuse locations past the end of a buffer before anything is written."""

from __future__ import annotations

import torch
from torch import Tensor

from .assertion import holds

__all__ = ["check_locations"]


def check_locations(loc: Tensor, rows: int) -> None:
    """Check on the CPU that every location is below `rows`; negative ones are legal padding.

    On other devices nothing is done: it would be a host sync, and their kernels check bounds
    themselves. `loc` is `[n]`, int32 or int64; `n == 0` is legal.

    :raises TypeError: for another dtype.
    :raises ValueError: for another rank.
    :raises IndexError: naming the largest location.
    """
    if loc.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"loc is {loc.dtype}, must be torch.int32 or torch.int64")
    if loc.dim() != 1:
        raise ValueError(f"loc has shape {tuple(loc.shape)}, must be one-dimensional")
    if loc.device.type == "cpu" and not holds((loc < rows).all()):
        raise IndexError(
            f"location {int(loc.max())} is past the last row {rows - 1}; nothing was written"
        )
