"""Rows in host memory as numpy items of so many bytes, which are copied in one piece each."""

from __future__ import annotations

from ctypes import c_char
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .on_host import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Memory", "item", "move_items", "store_items"]

Memory = c_char * (1 << 50)
"""Bytes from an address on: one type for any length, ctypes would make a type for each."""


def store_items(target: Tensor, loc: Tensor, rows: Tensor) -> None:
    """Row `i` of dense `rows` to `loc[i]` of dense `target`; zeros to 0 for one of 0 or below.

    :raises IndexError: for a location past the last row; nothing is written.
    """
    _store(_buffer_items(target), loc.numpy(), _items(rows))


def move_items(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Row `src_loc[i]` to `tgt_loc[i]`, all read before one is written.

    Zeros to 0 for a target of 0 or below; a source of 0 or below reads slot 0.

    :raises IndexError: for a location past the last row; nothing is moved.
    """
    items, sources = _buffer_items(buffer), src_loc.numpy()
    if (largest := int(np.maximum.reduce(sources))) >= len(items):
        raise _past_the_end(largest, len(items))
    _store(items, tgt_loc.numpy(), items.take(sources, mode="clip"))


def _store(
    items: NDArray[np.void], index: NDArray[np.signedinteger], rows: NDArray[np.void]
) -> None:
    dropped = int(np.minimum.reduce(index)) < 1
    if dropped:
        kept = index > 0
        index, rows = index[kept], rows[kept]
    try:
        items[index] = rows
    except IndexError:  # raised before anything is written
        raise _past_the_end(int(index.max()), len(items)) from None
    if dropped:
        items[0] = b""  # padded with zeros


def _items(rows: Tensor) -> NDArray[np.void]:
    """An alias, valid as long as `rows` is."""
    n = rows.shape[0]
    return _alias(rows.data_ptr(), n, rows.nbytes // n)


def _alias(address: int, n: int, width: int) -> NDArray[np.void]:
    memory: Any = Memory.from_address(address)
    return np.ndarray(n, item(width), memory)


# It follows from its arguments alone, and owns nothing: buffers are written again and again.
_known_alias = lru_cache(maxsize=1024)(_alias)


def _buffer_items(buffer: Tensor) -> NDArray[np.void]:
    n = buffer.shape[0]
    return _known_alias(buffer.data_ptr(), n, buffer.nbytes // n)


@cache
def item(width: int) -> np.dtype[np.void]:
    """So many bytes."""
    return np.dtype((np.void, width))


def _past_the_end(largest: int, rows: int) -> IndexError:
    return IndexError(f"location {largest} is past the last row {rows - 1}; nothing was written")
