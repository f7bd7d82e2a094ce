"""Locations that a pool is given: where they lie, and how far they may go."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import check_locations

__all__ = ["bounded", "check_device"]


def bounded(loc: Tensor, slots: int, device: torch.device) -> Tensor:
    """`[n]` locations of a buffer of `slots` rows, none of them past the last.

    In host memory such a one is refused. On a device that would wait for it, and operators demand
    that locations are in range: there it becomes -1, of which writes are dropped and reads zeros.

    :raises IndexError: in host memory, for a location past the last row.
    :raises ValueError: for locations that are not on `device`, where the pool is.
    """
    check_device("loc", loc, device)
    check_locations(loc, slots)
    return loc if loc.is_cpu else loc.masked_fill(loc >= slots, -1)


def check_device(name: str, given: Tensor, device: torch.device) -> None:
    """:raises ValueError: naming both devices where they differ."""
    if given.device != device:
        raise ValueError(f"{name} is on {given.device}, the pool on {device}; nothing was written")
