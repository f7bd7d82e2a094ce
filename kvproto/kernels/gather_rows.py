"""Read rows at locations."""

from __future__ import annotations

import torch
from torch import Tensor

from . import on_host
from .locations import check_locations
from .triton_devices import served_by_triton

__all__ = ["gather_rows"]


def gather_rows(source: Tensor, loc: Tensor) -> Tensor:
    """`source[loc[i]]` as fresh rows; a location of 0 or below reads the reserved slot.

    `source` is `[slots, ...]`, its slot 0 zero; `loc` is `[n]`, int32 or int64, below `slots`. A
    Triton kernel serves sources whose rows are dense, and gives zeros for a location past the end.

    :raises ValueError: for a source that the kernel does not serve.
    :raises IndexError: on the CPU, for a location past the last row.
    """
    if loc.is_cpu and on_host.has_numpy and not on_host.is_watched():
        try:
            return source.index_select(0, loc)
        except IndexError:
            pass  # padding, or past the end: what follows tells which
    if served_by_triton(loc):
        return _launched(source, loc)
    return source.index_select(0, loc.clamp(min=0).to(torch.int64))


def _launched(source: Tensor, loc: Tensor) -> Tensor:
    from .triton.gather_rows import plan_gather_rows
    from .triton.launch import run

    check_locations(loc, source.shape[0])
    rows = source.new_empty((loc.shape[0], *source.shape[1:]))
    run(plan_gather_rows(source, loc, rows))
    return rows
