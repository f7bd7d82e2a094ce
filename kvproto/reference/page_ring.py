"""Page ids in a double-ended queue of fixed capacity, in one tensor on the device."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["PageRing"]


class PageRing:
    """At most `capacity` page ids; every operation costs what it moves, whatever the capacity.

    Full, in ascending order from 1, when built. Callers see to it that it never overflows.
    """

    count: int

    def __init__(self, capacity: int, device: torch.device) -> None:
        self.capacity = capacity
        self._pages = torch.empty(capacity, dtype=torch.int64, device=device)
        self.fill()

    def fill(self) -> None:
        """Hold pages `1 .. capacity` again."""
        torch.arange(1, self.capacity + 1, out=self._pages, device=self._pages.device)
        self._head, self.count = 0, self.capacity

    def first(self, n: int) -> Tensor:
        """The first `n` ids; an alias of the storage where they lie in one piece."""
        end = self._head + n
        if end <= self.capacity:
            return self._pages[self._head : end]
        return torch.cat((self._pages[self._head :], self._pages[: end - self.capacity]))

    def drop(self, n: int) -> None:
        """Take the first `n` away."""
        self._head = (self._head + n) % self.capacity
        self.count -= n

    def push_front(self, pages: Tensor) -> None:
        """Put ids before the first, in the order given."""
        self._head = (self._head - pages.shape[0]) % self.capacity
        self._write(self._head, pages)

    def push_back(self, pages: Tensor) -> None:
        """Put ids after the last, in the order given."""
        self._write((self._head + self.count) % self.capacity, pages)

    def _write(self, start: int, pages: Tensor) -> None:
        n = pages.shape[0]
        fits = self.capacity - start
        if n <= fits:
            self._pages[start : start + n].copy_(pages)
        else:
            self._pages[start:].copy_(pages[:fits])
            self._pages[: n - fits].copy_(pages[fits:])
        self.count += n
