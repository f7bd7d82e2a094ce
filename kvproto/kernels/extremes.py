"""The least and the greatest of indices in host memory, without what a numpy ufunc sets up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .on_host import np

__all__ = ["greatest", "least"]


def least(index: NDArray[np.signedinteger]) -> int:
    """Of `[n]`, `n` at least 1."""
    return int(index[index.argmin()])


def greatest(index: NDArray[np.signedinteger]) -> int:
    """Of `[n]`, `n` at least 1."""
    return int(index[index.argmax()])
