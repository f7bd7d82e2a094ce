"""Rows in host memory as numpy items of so many bytes, which are copied in one piece each."""

from __future__ import annotations

from ctypes import c_char
from functools import cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .on_host import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["move_items", "store_items"]

# One type for memory of any length: ctypes would make a type for each.
_Memory = c_char * (1 << 50)


def store_items(target: Tensor, loc: Tensor, rows: Tensor) -> None:
    """Row `i` of dense `rows` to `loc[i]` of dense `target`, if that is at least 1.

    :raises IndexError: for a location past the last row; nothing is written.
    """
    _store(_items(target), loc, _items(rows))


def move_items(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Row `src_loc[i]` to `tgt_loc[i]` if that is at least 1, all read before one is written.

    A source of 0 or below reads slot 0.

    :raises IndexError: for a location past the last row; nothing is moved.
    """
    items, sources = _items(buffer), src_loc.numpy()
    _refuse_past_the_end(sources, len(items))
    _store(items, tgt_loc, items.take(sources, mode="clip"))


def _store(items: NDArray[np.void], loc: Tensor, rows: NDArray[np.void]) -> None:
    index = loc.numpy()
    if not _in_range(index, len(items)):
        _refuse_past_the_end(index, len(items))
        kept = index > 0
        index, rows = index[kept], rows[kept]
    items[index] = rows
    items[0] = b""  # zeros again, whatever was meant to be dropped there


def _items(rows: Tensor) -> NDArray[np.void]:
    """An alias, valid as long as `rows` is."""
    n = rows.shape[0]
    memory: Any = _Memory.from_address(rows.data_ptr())
    return np.ndarray(n, _void(rows.nbytes // n), memory)


@cache
def _void(width: int) -> np.dtype[np.void]:
    return np.dtype((np.void, width))


def _in_range(index: NDArray[np.signedinteger], rows: int) -> bool:
    """Whether all are rows, and none negative: without a sign those are larger than any row."""
    unsigned = np.uint64 if index.itemsize == 8 else np.uint32
    return int(np.maximum.reduce(index.view(unsigned))) < rows


def _refuse_past_the_end(index: NDArray[np.signedinteger], rows: int) -> None:
    if (largest := int(np.maximum.reduce(index))) >= rows:
        raise IndexError(f"location {largest} is past the last row {rows - 1}; nothing was written")
