"""Copy a single row in host memory: nothing that is set up for many is as fast."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import PYFUNCTYPE, c_int, c_size_t, c_void_p, cast, memmove, memset

from torch import Tensor

__all__ = ["move_one", "store_one"]

# They keep the interpreter's lock, which takes as long to let go as to copy a row.
_copy = PYFUNCTYPE(None, c_void_p, c_void_p, c_size_t)(cast(memmove, c_void_p).value or 0)
_fill = PYFUNCTYPE(None, c_void_p, c_int, c_size_t)(cast(memset, c_void_p).value or 0)


def store_one(slot: int, slots: int, sets: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Of every dense target of `slots` and its row: the row to `slot`; zeros to 0 for one below 1.

    :raises IndexError: for a slot past the last; nothing is written.
    """
    _check(slot, slots)
    for target, row in sets:
        dense, width = row.contiguous(), row.nbytes
        if slot > 0:
            _copy(target.data_ptr() + slot * width, dense.data_ptr(), width)
        else:
            _fill(target.data_ptr(), 0, width)


def move_one(buffer: Tensor, target: int, source: int) -> None:
    """Row `source` to `target`, or zeros to 0 for one of 0 or below.

    A source of 0 or below reads slot 0.

    :raises IndexError: for a slot past the last; nothing is moved.
    """
    rows = buffer.shape[0]
    _check(max(target, source), rows)
    start, width = buffer.data_ptr(), buffer.nbytes // rows
    if target > 0:
        _copy(start + target * width, start + max(source, 0) * width, width)
    else:
        _fill(start, 0, width)


def _check(largest: int, rows: int) -> None:
    if largest >= rows:
        raise IndexError(f"location {largest} is past the last row {rows - 1}; nothing was written")
