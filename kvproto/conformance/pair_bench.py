"""An allocator of window pairs on the bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

from kvproto.protocols import SWAAllocatorRequest

from .account_bench import slots
from .window_bench import WindowBench

__all__ = ["PairBench"]


class PairBench(WindowBench):
    """An allocator of full slots and their window peers."""

    @property
    def asked(self) -> SWAAllocatorRequest:
        """The request, which is one for a pair."""
        return cast("SWAAllocatorRequest", self.request)

    @property
    def usable(self) -> int:
        """What the smaller space has."""
        return min(self.asked.size, self.asked.size_swa)

    def take(self, need_size: int) -> list[int]:
        """As prompts are: a pair with pages need not serve `alloc` to serve an engine."""
        if self.page_size == 1:
            return super().take(need_size)
        call, given = self.extend_call([[]], [need_size]), self.extend([[]], [need_size])
        return self.must(call, need_size, given)

    def evicted(self, new: int, left: int = 0) -> list[int]:
        """A new request of which only the last tokens still have peers."""
        row: list[int] = []
        while len(row) < new:
            part = self.take(min(new - len(row), self.pool.available_size()))
            row += part
            self.pool.free_swa(slots(part[: len(part) - left] if len(row) == new else part))
        return row

    def rest(self) -> list[int]:
        """With peers as long as there are any, then, with the peers freed, what is left."""
        given = self.take(self.pool.available_size())
        left = self.pool.full_available_size()
        if left and given:
            self.pool.free_swa(slots(given))
        return [*given, *(self.evicted(left) if self.pool.available_size() else ())]

    def expect_room(self, call: str, rows: Sequence[Sequence[int]]) -> None:
        """In the window the pages of the rows' peers are owned, and no others."""
        every = [slot for row in rows for slot in row]
        pages = {slot // self.page_size for slot in every}
        windows = {peer // self.page_size for peer in self.peers(every) if peer > 0}
        left = (
            self.request.size - len(pages) * self.page_size,
            self.asked.size_swa - len(windows) * self.page_size,
        )
        said = f"{call}; full_available_size(), swa_available_size()"
        self.expect(said, expected=left, got=self.room())
        self.expect(f"{call}; available_size()", expected=min(left), got=self.pool.available_size())

    def room(self) -> tuple[int, ...]:
        """The full space and the window."""
        return self.pool.full_available_size(), self.pool.swa_available_size()

    def shortages(self) -> Iterator[str]:
        """Once with the window short, or both, and once with the full space alone."""
        yield from super().shortages()
        self.pool.free_swa(slots(self.held))
        self.held += self.evicted(self.pool.full_available_size() - self.page_size)
        yield "with all but one of the full pages owned, and no window page"

    def too_much(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """The same, and prompts with a tail."""
        yield from super().too_much()
        if self.page_size == 1:
            return
        full, window = (left // self.page_size + 1 for left in self.room())
        for pages, tail in ((full, 0), (full, 1), (window, window * self.page_size)):
            new = pages * self.page_size
            yield self.tail_call([], new, tail), partial(self.tail, [], new, tail)
