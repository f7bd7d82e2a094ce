"""Copy rows between locations of the same buffer."""

from __future__ import annotations

from torch import Tensor

from .gather_rows import gather_rows
from .store_rows import store_rows

__all__ = ["move_rows"]


def move_rows(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """`buffer[tgt_loc[i]] = buffer[src_loc[i]]`, all sources read before any target is written.

    Both are `[n]`, int32 or int64, in range. Pairs whose target is 0 or below are dropped; a
    source of 0 or below reads the reserved slot, which is zero.
    """
    store_rows(buffer, tgt_loc, gather_rows(buffer, src_loc))
