"""`FreeList` in host memory, where nothing is waited for: what comes back is counted at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvproto.kernels.on_host import np

from .host_ring import HostRing

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HostFreeList"]

# Owned is 0, so that whether all are is one count; all else is not.
_OWNED, _NOT_OWNED = 0, -1


class HostFreeList:
    """Pages `1 .. capacity`, each free, waiting to be sorted in, in a group, or owned.

    A page that is not owned cannot come back: with `strict` that raises, else it is ignored.
    Page 0 and what is out of range are never owned. Pages leave and come back in the order of
    `FreeList`, and everything costs what it touches, the sort of `need_sort` excepted.
    """

    def __init__(
        self,
        capacity: int,
        *,
        need_sort: bool = False,
        strict: bool = False,
        newest_first: bool = False,
    ) -> None:
        self.capacity, self.strict = capacity, strict
        self.need_sort, self.newest_first = need_sort, newest_first
        self._ring = HostRing(capacity)
        # One more at either end, for what is out of range.
        self._state = np.empty(capacity + 2, np.int32)
        self._numbers = np.arange(1, 257, dtype=np.int32)
        self.clear()

    def clear(self) -> None:
        """All pages are free; a group is over."""
        self._ring.fill()
        self._state[:] = _NOT_OWNED
        self._waiting: list[NDArray[np.integer]] = []
        self._waiting_count = 0
        self._group: list[NDArray[np.integer]] | None = None
        self._group_sets: list[NDArray[np.integer]] = []

    def available(self) -> int:
        """Pages that can be taken; those of a group cannot."""
        return self._ring.count + self._waiting_count

    def take(self, n: int, *, expected: int = 0) -> NDArray[np.int64] | None:
        """Own `n` pages from the front, or None and no change where fewer are free.

        The result may alias the list: use it before the next call. With fewer than `expected`
        at hand, those that wait to be sorted in are.
        """
        if self._waiting and max(n, expected) > self._ring.count:
            self._sort_in()
        if n > self._ring.count:
            return None
        pages = self._ring.first(n)
        self._ring.drop(n)
        self._state[pages] = _OWNED
        return pages

    def release(self, pages: NDArray[np.integer], *, as_set: bool = False) -> None:
        """Take pages back, `[n]`. `as_set` brings them back in ascending order.

        :raises ValueError: in strict mode, for pages that are not owned; nothing changes.
        """
        if self.strict:
            self._refuse_strangers(pages)
        claimed = self._claim(pages)
        if self._group is not None:
            (self._group_sets if as_set else self._group).append(claimed)
        else:
            self._give_back(np.sort(claimed) if as_set else claimed)

    def begin_group(self) -> None:
        """Hold back what is released from now on.

        :raises RuntimeError: inside a group.
        """
        if self._group is not None:
            raise RuntimeError("free_group_begin inside a free group: groups do not nest")
        self._group = []

    def end_group(self) -> None:
        """Release what was held back; nothing without a group."""
        held, sets, self._group, self._group_sets = self._group, self._group_sets, None, []
        if sets:
            self._give_back(np.sort(np.concatenate(sets)))
        if held:
            self._give_back(np.concatenate(held))

    def all_free(self) -> NDArray[np.integer]:
        """All pages that `available` counts, for tests of the accounts."""
        return np.concatenate((self._ring.first(self._ring.count), *self._waiting))

    def _give_back(self, pages: NDArray[np.integer]) -> None:
        if self.need_sort:
            self._waiting.append(pages)
            self._waiting_count += len(pages)
        elif self.newest_first:
            self._ring.push_front(pages)
        else:
            self._ring.push_back(pages)

    def _claim(self, pages: NDArray[np.integer]) -> NDArray[np.integer]:
        """Disown pages: those that were owned, once each."""
        state = self._state
        before = state.take(pages, mode="clip")
        if np.count_nonzero(before):
            pages = pages[before == _OWNED]
        if (n := len(pages)) > len(self._numbers):
            self._numbers = np.arange(1, 2 * n + 1, dtype=np.int32)
        number = self._numbers[:n]
        state[pages] = number
        # Of several places of one page one reads its own number again.
        last = state[pages]
        # Bytes: an element by element comparison takes numpy longer to set up.
        return pages if last.tobytes() == number.tobytes() else pages[last == number]

    def _sort_in(self) -> None:
        pages = np.sort(self.all_free())
        self._ring.drop(self._ring.count)
        self._ring.push_back(pages)
        self._waiting, self._waiting_count = [], 0

    def _refuse_strangers(self, pages: NDArray[np.integer]) -> None:
        owned = self._state.take(pages, mode="clip") == _OWNED
        if not owned.all():
            strangers = sorted({int(page) for page in pages[~owned]})
            raise ValueError(
                f"pages {strangers} are not owned: freed before, or not of "
                f"1..{self.capacity}; nothing was freed"
            )
