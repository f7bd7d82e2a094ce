"""Write rows to locations, except to the reserved one."""

from __future__ import annotations

from torch import Tensor

from .locations import is_location_list
from .on_host import on_host
from .one_row import store_one
from .row_items import store_items
from .store_row_sets import store_row_sets

__all__ = ["store_rows"]


def store_rows(target: Tensor, loc: Tensor, rows: Tensor) -> None:
    """`target[loc[i]] = rows[i]` for every `i` with `loc[i] >= 1`; the rest is dropped.

    `target` is `[slots, ...]`, its slot 0 zero; `rows` is `[n, ...]` with the same trailing shape
    and dtype, any strides; `loc` is `[n]`, int32 or int64, below `slots`. Of duplicate
    locations one row wins. Fixed-shape on a device: what is dropped is zeros for slot 0.

    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    if not _stored_on_host(target, loc, rows):
        store_row_sets(loc, ((target, rows),))


def _stored_on_host(target: Tensor, loc: Tensor, rows: Tensor) -> bool:
    """What `store_row_sets` does for several: for a few rows the loop over one would be felt."""
    if not is_location_list(loc) or not on_host(target, loc):
        return False
    n, slots, given = loc.shape[0], target.shape[0], rows.nbytes
    if not slots or rows.dtype != target.dtype or not rows.is_cpu:
        return False
    if given * slots != target.nbytes * n:
        return False
    if n == 1:
        store_one(int(loc), slots, ((target, rows),))
    elif n:
        store_items(loc, slots, ((target, rows),))
    return True
