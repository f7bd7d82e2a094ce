"""Refuse locations past the end of a buffer before anything is written."""

from __future__ import annotations

import torch
from torch import Tensor

from .assertion import holds
from .extremes import greatest
from .on_host import on_host

__all__ = ["INDEX_DTYPES", "check_locations", "check_pairs", "is_location_list"]

INDEX_DTYPES = (torch.int64, torch.int32)
"""Those that locations come in."""


def is_location_list(loc: Tensor) -> bool:
    """Whether it is `[n]`, int32 or int64."""
    return loc.dtype in INDEX_DTYPES and loc.dim() == 1


def check_locations(loc: Tensor, rows: int) -> None:
    """Check on the CPU that every location is below `rows`; negative ones are legal padding.

    On other devices nothing is done: it would be a host sync, and their kernels check bounds
    themselves. `loc` is `[n]`, int32 or int64; `n == 0` is legal.

    :raises TypeError: for another dtype.
    :raises ValueError: for another rank.
    :raises IndexError: naming the largest location.
    """
    if loc.dtype not in INDEX_DTYPES:
        raise TypeError(f"loc is {loc.dtype}, must be torch.int32 or torch.int64")
    if loc.dim() != 1:
        raise ValueError(f"loc has shape {tuple(loc.shape)}, must be one-dimensional")
    if loc.is_cpu and not _all_below(loc, rows):
        raise IndexError(
            f"location {int(loc.max())} is past the last row {rows - 1}; nothing was written"
        )


def check_pairs(tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Check that there is a source for every target.

    :raises ValueError: naming both shapes.
    """
    if tgt_loc.shape != src_loc.shape:
        raise ValueError(
            f"targets have shape {tuple(tgt_loc.shape)}, sources {tuple(src_loc.shape)}: must be "
            "as many; nothing was moved"
        )


def _all_below(loc: Tensor, rows: int) -> bool:
    if not on_host(loc):
        return holds((loc < rows).all())
    n = loc.shape[0]
    return n == 0 or (int(loc) if n == 1 else greatest(loc.numpy())) < rows
