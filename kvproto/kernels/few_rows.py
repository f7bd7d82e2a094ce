"""Copy a few rows in host memory one by one: nothing that is set up for many is as fast."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import PYFUNCTYPE, c_int, c_size_t, c_void_p, cast, memmove, memset

from torch import Tensor

__all__ = ["FEW", "move_one", "store_few"]

FEW = 4
"""As many rows as cost less one by one than copying them together."""

# They keep the interpreter's lock, which takes as long to let go as to copy a row.
_copy = PYFUNCTYPE(None, c_void_p, c_void_p, c_size_t)(cast(memmove, c_void_p).value or 0)
_fill = PYFUNCTYPE(None, c_void_p, c_int, c_size_t)(cast(memset, c_void_p).value or 0)


def store_few(target: Tensor, slots: Sequence[int], rows: Tensor) -> None:
    """Row `i` of dense `rows` to `slots[i]` of dense `target`; zeros to 0 for one of 0 or below.

    :raises IndexError: for a slot past the last; nothing is written.
    """
    width = _row_bytes(target, max(slots))
    into, given = target.data_ptr(), rows.data_ptr()
    for slot in slots:
        if slot > 0:
            _copy(into + slot * width, given, width)
        else:
            _fill(into, 0, width)
        given += width


def move_one(buffer: Tensor, target: int, source: int) -> None:
    """Row `source` to `target`, or zeros to 0 for one of 0 or below.

    A source of 0 or below reads slot 0.

    :raises IndexError: for a slot past the last; nothing is moved.
    """
    start, width = buffer.data_ptr(), _row_bytes(buffer, max(target, source))
    if target > 0:
        _copy(start + target * width, start + max(source, 0) * width, width)
    else:
        _fill(start, 0, width)


def _row_bytes(buffer: Tensor, largest: int) -> int:
    """Bytes of a row, once the largest slot is known to be one."""
    rows = buffer.shape[0]
    if largest >= rows:
        raise IndexError(f"location {largest} is past the last row {rows - 1}; nothing was written")
    return buffer.nbytes // rows
