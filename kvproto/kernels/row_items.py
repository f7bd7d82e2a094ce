"""Rows in host memory as numpy items of so many bytes, which are copied in one piece each."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_char
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .extremes import greatest, least
from .on_host import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Memory", "item", "move_items", "store_items"]

Memory = c_char * (1 << 50)
"""Bytes from an address on: one type for any length, ctypes would make a type for each."""

_FIRST = 1
_ALL: Any = Memory.from_address(_FIRST)
"""All addresses but that of nothing: an offset costs less than a buffer at each address."""


def store_items(loc: Tensor, slots: int, sets: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Of every target of `slots` and its `rows`: row `i` to `loc[i]`; zeros to 0 for one below 1.

    Targets are dense.

    :raises IndexError: for a location past the last row; nothing is written.
    """
    n = loc.shape[0]
    index = _index(loc, n)
    kept = None if least(index) > 0 else index > 0
    into = index if kept is None else index[kept]
    try:
        for target, rows in sets:
            if width := target.nbytes // slots:
                dense = rows.contiguous()  # alive as long as its alias
                items = _known_alias(target.data_ptr(), slots, width)
                given = _alias(dense.data_ptr(), n, width)
                items[into] = given if kept is None else given[kept]
                if kept is not None:
                    items[0] = b""  # padded with zeros
    except IndexError:  # raised by the first of them, before anything is written
        raise _past_the_end(greatest(index), slots) from None


def move_items(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor) -> None:
    """Row `src_loc[i]` to `tgt_loc[i]`, all read before one is written.

    Zeros to 0 for a target of 0 or below; a source of 0 or below reads slot 0.

    :raises IndexError: for a location past the last row; nothing is moved.
    """
    slots, targets, sources = buffer.shape[0], tgt_loc.numpy(), src_loc.numpy()
    if (largest := max(greatest(targets), greatest(sources))) >= slots:
        raise _past_the_end(largest, slots)
    items = _known_alias(buffer.data_ptr(), slots, buffer.nbytes // slots)
    rows = items.take(sources, mode="clip")
    if least(targets) > 0:
        items[targets] = rows
    else:
        kept = targets > 0
        items[targets[kept]] = rows[kept]
        items[0] = b""  # padded with zeros


def _index(loc: Tensor, n: int) -> NDArray[np.signedinteger]:
    """An alias; torch takes longer to make one."""
    return np.ndarray(n, _integer(loc.itemsize), _ALL, loc.data_ptr() - _FIRST)


def _alias(address: int, n: int, width: int) -> NDArray[np.void]:
    """`n` items from an address on, valid as long as the memory is."""
    return np.ndarray(n, item(width), _ALL, address - _FIRST)


# It follows from the arguments alone, and owns nothing: buffers are written again and again.
_known_alias = lru_cache(maxsize=1024)(_alias)


@cache
def item(width: int) -> np.dtype[np.void]:
    """So many bytes."""
    return np.dtype((np.void, width))


@cache
def _integer(width: int) -> np.dtype[np.signedinteger]:
    """Of so many bytes."""
    return np.dtype(f"i{width}")


def _past_the_end(largest: int, rows: int) -> IndexError:
    return IndexError(f"location {largest} is past the last row {rows - 1}; nothing was written")
