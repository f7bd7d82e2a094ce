"""Which pages are free, and that each is so only once."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels.page_owners import NOT_OWNED, claim_pages, lend_pages, owned_pages

from .page_ring import PageRing

__all__ = ["FreeList"]


class FreeList:
    """Pages `1 .. capacity`, each free, returned but not yet counted, in a group, or owned.

    A page that is not owned cannot come back: with `strict` that raises, else it is ignored.
    Page 0 and what is out of range are never owned. How many of the returned pages were owned is
    counted when it is asked for: `release` neither waits for a device nor depends on values,
    `available` waits for what it has not counted, and on a device `take` only when short.

    Pages leave from the front. They come back to the front (`newest_first`) or to the back; with
    `need_sort` they wait apart until a `take` runs short, and are then sorted in with the rest.
    Everything costs what it touches, that sort excepted.
    """

    def __init__(
        self,
        capacity: int,
        device: torch.device,
        *,
        need_sort: bool = False,
        strict: bool = False,
        newest_first: bool = False,
    ) -> None:
        self.capacity, self.strict = capacity, strict
        self.need_sort, self.newest_first = need_sort, newest_first
        self._eager = device.type == "cpu"
        self._ring = PageRing(capacity, device)
        # One more at either end, for what is out of range.
        self._state = torch.empty(capacity + 2, dtype=torch.int32, device=device)
        self.clear()

    def clear(self) -> None:
        """All pages are free; a group is over."""
        self._ring.fill()
        self._state.fill_(NOT_OWNED)
        self._returned: list[Tensor] = []
        self._waiting: list[Tensor] = []
        self._waiting_count = 0
        self._group: list[Tensor] | None = None
        self._group_sets: list[Tensor] = []

    def available(self) -> int:
        """Pages that can be taken; those of a group cannot."""
        self._count_returned()
        return self._ring.count + self._waiting_count

    def take(self, n: int, *, expected: int = 0) -> Tensor | None:
        """Own `n` pages from the front, or None and no change where fewer are free.

        The result may alias the list: use it before the next call. With fewer than `expected`
        at hand, those that wait to be sorted in are.
        """
        if self._eager or n > self._ring.count:
            self._count_returned()
        if self._waiting and max(n, expected) > self._ring.count:
            self._sort_in()
        if n > self._ring.count:
            return None
        pages = self._ring.first(n)
        self._ring.drop(n)
        lend_pages(self._state, pages)
        return pages

    def release(self, pages: Tensor, *, as_set: bool = False) -> None:
        """Take pages back, `[n]` int64. `as_set` brings them back in ascending order.

        :raises ValueError: in strict mode, for pages that are not owned; nothing changes.
        """
        if self.strict:
            self._refuse_strangers(pages)
        claimed = self._claim(pages)
        if self._group is None:
            self._returned.append(torch.sort(claimed).values if as_set else claimed)
        else:
            (self._group_sets if as_set else self._group).append(claimed)

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
            self._returned.append(torch.sort(torch.cat(sets)).values)
        if held:
            self._returned.append(torch.cat(held))

    def pages(self) -> Tensor:
        """All pages that `available` counts, for tests of the accounts."""
        self._count_returned()
        return torch.cat((self._ring.first(self._ring.count), *self._waiting))

    def owns(self, pages: Tensor) -> Tensor:
        """bool, shaped like `pages`: which of them are owned; fixed-shape."""
        return owned_pages(self._state, pages)

    def _count_returned(self) -> None:
        if not self._returned:
            return
        returned, self._returned = self._returned, []
        if self.newest_first and not self.need_sort:
            returned.reverse()
        pages = returned[0] if len(returned) == 1 else torch.cat(returned)
        if int(torch.count_nonzero(pages)) < pages.shape[0]:
            pages = pages[pages != 0]
        if self.need_sort:
            self._waiting.append(pages)
            self._waiting_count += pages.shape[0]
        elif self.newest_first:
            self._ring.push_front(pages)
        else:
            self._ring.push_back(pages)

    def _claim(self, pages: Tensor) -> Tensor:
        """Disown pages; the same with 0 where one was not owned, or stands there already."""
        return claim_pages(self._state, pages)

    def _sort_in(self) -> None:
        pages = torch.cat((self._ring.first(self._ring.count), *self._waiting))
        self._ring.drop(self._ring.count)
        self._ring.push_back(torch.sort(pages).values)
        self._waiting, self._waiting_count = [], 0

    def _refuse_strangers(self, pages: Tensor) -> None:
        owned = self.owns(pages)
        if not bool(owned.all()):
            strangers = sorted({int(page) for page in pages[~owned]})
            raise ValueError(
                f"pages {strangers} are not owned: freed before, or not of "
                f"1..{self.capacity}; nothing was freed"
            )
