"""An allocator of pages that ranks keep in turn, on the bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

from kvproto.protocols import ShardedAllocatorRequest

from .account_bench import AllocBench, numbers

__all__ = ["ShardedBench"]


class ShardedBench(AllocBench):
    """Page `p` is of class `p % ranks`; what is free is asked for class by class."""

    @property
    def asked(self) -> ShardedAllocatorRequest:
        """The request, which is one for ranks."""
        return cast("ShardedAllocatorRequest", self.request)

    @property
    def ranks(self) -> int:
        """Ranks in the group."""
        return self.asked.shard_size

    @property
    def lendable(self) -> range:
        """All slots but those of each rank's reserved page."""
        first = self.ranks * self.page_size
        return range(first, first + self.asked.size)

    def cyclic(self, start_class: int, need_size: int) -> list[int] | None:
        """`alloc_cyclic`."""
        call = f"alloc_cyclic({start_class}, {need_size})"
        return numbers(call, self.pool.alloc_cyclic(start_class, need_size), need_size)

    def take_cyclic(self, start_class: int, need_size: int) -> list[int]:
        """The slots, of which there must be as many."""
        given = self.cyclic(start_class, need_size)
        return self.must(f"alloc_cyclic({start_class}, {need_size})", need_size, given)

    def rest(self) -> list[int]:
        """Every free page, class by class."""
        counts = enumerate(self.room())
        given = [self.take_cyclic(owner, self.page_size) for owner, n in counts for _ in range(n)]
        return [slot for page in given for slot in page]

    def room(self) -> tuple[int, ...]:
        """Free pages of each class."""
        return tuple(self.pool.class_free_page_counts())

    def expect_continues(self, call: str, before: Sequence[int], new: Sequence[int]) -> None:
        """As with any pages; and one class follows another."""
        super().expect_continues(call, before, new)
        pages = [slot // self.page_size for slot in [*before, *new][:: self.page_size]]
        turns = [(page - pages[0]) % self.ranks for page in pages]
        told = [turn % self.ranks for turn in range(len(pages))]
        self.expect(f"{call}; classes after the first", expected=told, got=turns)

    def expect_room(self, call: str, rows: Sequence[Sequence[int]]) -> None:
        """Of each class the pages that these rows leave are free, and the fewest decide."""
        pages = {slot // self.page_size for row in rows for slot in row}
        each = self.asked.size_per_rank // self.page_size
        left = tuple(
            each - sum(page % self.ranks == owner for page in pages) for owner in range(self.ranks)
        )
        self.expect(f"{call}; class_free_page_counts()", expected=left, got=self.room())
        floor = min(left) * self.ranks * self.page_size
        self.expect(f"{call}; available_size()", expected=floor, got=self.pool.available_size())

    def shortages(self) -> Iterator[str]:
        """With classes that differ in what they have left."""
        self.held = self.take_cyclic(1, (self.ranks + 1) * self.page_size)
        yield "with two pages of a class owned, and one of each other"

    def too_much(self) -> Iterator[tuple[str, Callable[[], object]]]:
        """Calls that need a page more of the class they begin with, or of all."""
        room = self.room()
        for owner, free in enumerate(room):
            need = (free * self.ranks + 1) * self.page_size
            yield f"alloc_cyclic({owner}, {need})", partial(self.cyclic, owner, need)
        need = (sum(room) + 1) * self.page_size
        yield f"alloc({need})", partial(self.alloc, need)
