"""Acme's kernels: rows to token slots, from token slots, and between them.

A real vendor launches its own here. They keep three clauses of the contract: what is aimed at slot
0 or below is dropped, on the CPU a slot past the end is refused before anything is written, and no
shape or branch depends on the locations, so that nothing waits for a device.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.kernels import check_locations

__all__ = ["load_rows", "move_rows", "store_rows"]


def store_rows(targets: Sequence[Tensor], loc: Tensor, given: Sequence[Tensor]) -> None:
    """Put `given[j][i]` at slot `loc[i]` of `targets[j]`, `[slots, ...]` of any strides.

    :raises ValueError: for rows of another number or shape; nothing is written then.
    :raises IndexError: on the CPU, for a slot past the last; nothing is written then.
    """
    for target, rows in zip(targets, given, strict=True):
        if rows.shape != (loc.shape[0], *target.shape[1:]):
            raise ValueError(
                f"rows of shape {tuple(rows.shape)} for {loc.shape[0]} locations of "
                f"{tuple(target.shape[1:])}; nothing was written"
            )
        check_locations(loc, target.shape[0])
    slots = loc.clamp(min=0).long()
    for target, rows in zip(targets, given, strict=True):
        # Slot 0 is zero and stays so: it is where dropped rows go, as zeros.
        kept = (loc > 0).view(-1, *(1 for _ in target.shape[1:]))
        target.index_copy_(0, slots, torch.where(kept, rows, 0).to(target.dtype))


def load_rows(source: Tensor, loc: Tensor) -> Tensor:
    """The rows at `loc`, fresh; zeros for slots of 0 and below."""
    check_locations(loc, source.shape[0])
    return source.index_select(0, loc.clamp(min=0))


def move_rows(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Slot `src_loc[i]` to slot `tgt_loc[i]`, as if all were read before one is written."""
    store_rows([buffer], tgt_loc, [load_rows(buffer, src_loc)])
