"""Write rows to locations, except to the reserved one."""

from __future__ import annotations

from torch import Tensor

from .locations import is_location_list
from .on_host import has_bytes, on_host
from .one_row import store_one
from .row_items import store_items
from .store_row_sets import store_row_sets

__all__ = ["store_rows"]


def store_rows(target: Tensor, loc: Tensor, rows: Tensor) -> None:
    """`target[loc[i]] = rows[i]` for every `i` with `loc[i] >= 1`; the rest is dropped.

    `target` is `[slots, ...]`, its slot 0 zero; `rows` is `[n, ...]` with the same trailing shape
    and dtype, any strides; `loc` is `[n]`, int32 or int64, below `slots`. Rows may lie in the
    target's own memory: all are read before one is written. Of duplicate
    locations one row wins; in a kernel, each of its accesses of up to 16 bytes. Fixed-shape on a
    device, where what is dropped is zeros for slot 0 or, in a kernel, is not touched; a kernel
    drops locations past the last row too.

    :raises ValueError: for rows of another number, trailing shape or dtype; nothing is written.
    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    if not _stored_on_host(target, loc, rows):
        store_row_sets(loc, ((target, rows),))


def _stored_on_host(target: Tensor, loc: Tensor, rows: Tensor) -> bool:
    """What `store_row_sets` does for several: for a few rows the loop over one would be felt."""
    if not is_location_list(loc) or not on_host(target, loc):
        return False
    n, slots = loc.shape[0], target.shape[0]
    if not slots or rows.dtype != target.dtype or rows.shape != (n, *target.shape[1:]):
        return False
    if not has_bytes(rows):
        return False
    if n == 1:
        store_one(int(loc), slots, ((target, rows),))
    elif n:
        store_items(loc, slots, ((target, rows),))
    return True
