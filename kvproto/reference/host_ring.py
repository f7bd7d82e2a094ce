"""`PageRing` in host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvproto.kernels.on_host import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HostRing"]


class HostRing:
    """At most `capacity` page ids; every operation costs what it moves, whatever the capacity.

    Full, in ascending order from 1, when built. Callers see to it that it never overflows.
    """

    count: int

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._pages = np.empty(capacity, np.int64)
        self.fill()

    def fill(self) -> None:
        """Hold pages `1 .. capacity` again."""
        self._pages[:] = np.arange(1, self.capacity + 1)
        self._head, self.count = 0, self.capacity

    def first(self, n: int) -> NDArray[np.int64]:
        """The first `n` ids; an alias of the storage where they lie in one piece."""
        end = self._head + n
        if end <= self.capacity:
            return self._pages[self._head : end]
        return np.concatenate((self._pages[self._head :], self._pages[: end - self.capacity]))

    def drop(self, n: int) -> None:
        """Take the first `n` away."""
        self._head = (self._head + n) % self.capacity
        self.count -= n

    def push_front(self, pages: NDArray[np.integer]) -> None:
        """Put ids before the first, in the order given."""
        self._head = (self._head - len(pages)) % self.capacity
        self._write(self._head, pages)

    def push_back(self, pages: NDArray[np.integer]) -> None:
        """Put ids after the last, in the order given."""
        self._write((self._head + self.count) % self.capacity, pages)

    def _write(self, start: int, pages: NDArray[np.integer]) -> None:
        n, fits = len(pages), self.capacity - start
        self._pages[start : start + n] = pages[:fits]
        if n > fits:
            self._pages[: n - fits] = pages[fits:]
        self.count += n
