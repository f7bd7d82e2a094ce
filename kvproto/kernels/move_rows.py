"""Copy rows between locations of the same buffer."""

from __future__ import annotations

from torch import Tensor

from .gather_rows import gather_rows
from .locations import check_pairs, is_location_list
from .on_host import on_host
from .one_row import move_one
from .row_items import move_items
from .store_rows import store_rows

__all__ = ["move_rows"]


def move_rows(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """`buffer[tgt_loc[i]] = buffer[src_loc[i]]`, all sources read before any target is written.

    Both are `[n]`, int32 or int64, in range. Pairs whose target is 0 or below are dropped; a
    source of 0 or below reads the reserved slot, which is zero.

    :raises ValueError: for another number of sources than of targets; nothing is moved.
    :raises IndexError: on the CPU, for a location past the last row; nothing is moved.
    """
    check_pairs(tgt_loc, src_loc)
    if not _moved_on_host(buffer, tgt_loc, src_loc):
        store_rows(buffer, tgt_loc, gather_rows(buffer, src_loc))


def _moved_on_host(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> bool:
    if not on_host(buffer, tgt_loc, src_loc):
        return False
    if not (is_location_list(tgt_loc) and is_location_list(src_loc)):
        return False
    n = tgt_loc.shape[0] if buffer.nbytes else 0
    if n == 1:
        move_one(buffer, int(tgt_loc), int(src_loc))
    elif n:
        move_items(buffer, tgt_loc, src_loc)
    return True
