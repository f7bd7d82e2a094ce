"""Logical pages of which each rank of a group keeps one in turn."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from kvproto.kernels.page_slots import page_slots, pages_of, pages_touched
from kvproto.kernels.sharded_pages import pages_by_owner
from kvproto.protocols import PageShard

from .free_list import FreeList
from .slot_allocator import page_disjoint

__all__ = ["InterleavedAllocator"]


class InterleavedAllocator:
    """Pages `shard_size .. `, of which rank `page % shard_size` keeps number `page // shard_size`.

    `size` counts one rank's slots, as the constructor in use today has it; the ids are of the
    whole group. Each rank's page 0 is reserved: no slot below `shard_size * page_size` is lent. A
    class is a free list of its own, the last freed page first: ranks that make the same calls
    agree without a word.

    With `strict`, freeing what is not owned raises, otherwise it is ignored.

    :raises ValueError: for fewer than two ranks, or a size that is not whole pages.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    page_size: int
    shard_size: int
    shard_spec: PageShard | None
    dtype: torch.dtype
    device: torch.device

    def __init__(
        self,
        size: int,
        physical_page_size: int,
        shard_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: object,
        need_sort: bool,
        shard_spec: PageShard | None = None,
        strict: bool = False,
    ) -> None:
        if shard_size < 2:
            raise ValueError(f"shard_size={shard_size}: a group has at least 2 ranks")
        if physical_page_size < 1 or size < physical_page_size or size % physical_page_size:
            raise ValueError(
                f"size={size}: must be a positive multiple of "
                f"physical_page_size={physical_page_size}"
            )
        self.size, self.page_size = size * shard_size, physical_page_size
        self.shard_size, self.shard_spec = shard_size, shard_spec
        self.dtype, self.device, self.strict = dtype, torch.device(device), strict
        self._kvcache = kvcache
        self._offsets = torch.arange(physical_page_size, device=self.device)
        pages = size // physical_page_size
        self._classes = [
            FreeList(pages, self.device, need_sort=need_sort, newest_first=True)
            for _ in range(shard_size)
        ]

    def get_kvcache(self) -> object:
        """The pool that was given to the constructor."""
        return self._kvcache

    def class_free_page_counts(self) -> list[int]:
        """Free pages of each class; waits for segment frees it has not counted."""
        return [each.available() for each in self._classes]

    def available_size(self) -> int:
        """Slots that any start class allows: as many of each class as the fewest there are."""
        return self.shard_size * min(self.class_free_page_counts()) * self.page_size

    def alloc(self, need_size: int, /) -> Tensor | None:
        """Whole pages from the class with the most free ones on, or None and no change.

        :raises ValueError: for a need that ends inside a page.
        """
        counts = self.class_free_page_counts()
        return self.alloc_cyclic(counts.index(max(counts)), need_size)

    def alloc_cyclic(self, start_class: int, need_size: int) -> Tensor | None:
        """Whole pages, the first of class `start_class % shard_size`, as `ShardedAllocator` says.

        :raises ValueError: for a need that ends inside a page.
        """
        if need_size < 0 or need_size % self.page_size:
            raise ValueError(
                f"need_size={need_size}: must be a multiple of page_size={self.page_size}, "
                "not negative"
            )
        count, ranks = need_size // self.page_size, self.shard_size
        turns = [(count - turn + ranks - 1) // ranks for turn in range(ranks)]
        drawn = [(start_class + turn) % ranks for turn in range(ranks)]
        free = self.class_free_page_counts()
        if any(turns[turn] > free[owner] for turn, owner in enumerate(drawn)):
            return None
        pages = torch.empty(count, dtype=torch.int64, device=self.device)
        for turn, owner in enumerate(drawn):
            taken = self._classes[owner].take(turns[turn])
            if taken is not None:
                pages[turn::ranks] = taken * ranks + owner
        return page_slots(pages, self._offsets)

    def free(self, free_index: Tensor, /) -> None:
        """Take back every page that one of `[n]` slots is on, in any order; waits for the device.

        :raises ValueError: in strict mode, for pages that are not owned.
        """
        if free_index.shape[0]:
            self._release(pages_touched(free_index, self.page_size), as_set=True)

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Take back consecutive tokens of a request; fixed-shape unless strict.

        :raises ValueError: when token `start_pos` does not begin a page.
        """
        if start_pos % self.page_size:
            raise ValueError(f"start_pos={start_pos}: must begin a page of {self.page_size} tokens")
        if free_index.shape[0]:
            self._release(pages_of(free_index[:: self.page_size], self.page_size))

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Take back several segments of one request.

        :raises ValueError: when two share a page, or one does not begin on one; none is freed.
        """
        for free_index, start_pos in page_disjoint(segments, self.page_size):
            self.free_segment(free_index, start_pos=start_pos)

    def free_group_begin(self) -> None:
        """Hold freed slots back from now on.

        :raises RuntimeError: inside a group.
        """
        for each in self._classes:
            each.begin_group()

    def free_group_end(self) -> None:
        """Return what the group held back; nothing without a group."""
        for each in self._classes:
            each.end_group()

    def clear(self) -> None:
        """Own nothing, as when built; a group is over."""
        for each in self._classes:
            each.clear()

    def get_all_free_pages(self) -> Tensor:
        """The logical ids of all free pages, for tests of the accounts."""
        parts = [each.pages() * self.shard_size + owner for owner, each in enumerate(self._classes)]
        return torch.cat(parts)

    def _release(self, pages: Tensor, *, as_set: bool = False) -> None:
        """Each class is given all pages, those of others as its page 0, which nobody owns."""
        parts = pages_by_owner(pages, self.shard_size)
        if self.strict:
            self._refuse_strangers(pages, parts)
        for each, mine in zip(self._classes, parts, strict=True):
            each.release(mine, as_set=as_set)

    def _refuse_strangers(self, pages: Tensor, parts: list[Tensor]) -> None:
        owned = torch.zeros_like(pages, dtype=torch.bool)
        for each, mine in zip(self._classes, parts, strict=True):
            owned |= each.owns(mine)
        if not bool(owned.all()):
            raise ValueError(
                f"pages {sorted({int(page) for page in pages[~owned]})} are not owned: freed "
                "before, or never lent; nothing was freed"
            )
