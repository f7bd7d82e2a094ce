"""Two allocators in step, and the table from a location of the first to its peer in the second."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from kvproto.kernels.page_slots import pages_of, pages_touched
from kvproto.protocols import Capability, PagedAllocator, SlotAllocator, require

from .device_pair import device_pair
from .page_demand import check_tokens, pages_to_extend
from .peer_mapping import PeerMapping
from .slot_allocator import page_disjoint

__all__ = ["MappedPageFree", "MappedPair", "given"]


@runtime_checkable
class MappedPageFree(Capability, Protocol):
    """Can the allocator take back pages of which some are none, without a host sync?"""

    def free_mapped_pages(self, pages: Tensor, /) -> None:
        """Take pages back, `[n]` int64; 0 stands for none."""
        ...


class MappedPair:
    """What pairs of allocators share: the ids lent are the first one's, the peers the second's.

    Both are injected, whoever made them; above page size 1 they must be `PagedAllocator`s. Frees
    of `MappedPageFree` second allocators do not wait for a device; for others the locations
    without a peer are filtered out first.

    :raises ValueError: for different page sizes.
    :raises CapabilityError: for an allocator that cannot do its part.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    page_size: int
    device: torch.device

    def __init__(
        self,
        first: SlotAllocator,
        second: SlotAllocator,
        kvcache: object,
        *,
        roles: tuple[str, str],
    ) -> None:
        called = f"a {roles[0]} and {roles[1]} pair"
        for part in (first, second):
            require(part, SlotAllocator, for_=called)
        if first.page_size != second.page_size:
            raise ValueError(
                f"page_size={first.page_size} of the {roles[0]} allocator and {second.page_size} "
                f"of the {roles[1]} allocator must be the same"
            )
        for part in (first, second) if first.page_size > 1 else ():
            require(part, PagedAllocator, for_=f"{called} with pages")
        self._first, self._second = first, second
        self.page_size, self.device = first.page_size, torch.device(first.device)
        self._kvcache = kvcache
        self._mapping = PeerMapping(first.size, self.page_size, self.device)
        self._at_once = device_pair(first, second, self._mapping.table)
        self._fixed_shape = second if isinstance(second, MappedPageFree) else None

    def get_kvcache(self) -> object:
        """The pool that was given to the constructor."""
        return self._kvcache

    def available_size(self) -> int:
        """What both spaces have."""
        return min(self._first.available_size(), self._second.available_size())

    def alloc(self, need_size: int, /) -> Tensor | None:
        """Whole pages of both spaces, or None and no change where either has too few."""
        if not self._fits(need_size, need_size):
            return None
        if self._at_once is not None and need_size >= 0 == need_size % self.page_size:
            return self._at_once.lend(need_size // self.page_size)
        ids = given(self._first.alloc(need_size))
        self._mapping.pair(ids, given(self._second.alloc(need_size)))
        return ids

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """Slots that continue each request, every one with a peer, as `PagedAllocator` says.

        What continues on a page whose peer was freed has none.

        :raises ValueError: when `extend_num_tokens` is not what the lengths add up to.
        """
        new_pages, extend = pages_to_extend(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        check_tokens(extend_num_tokens, extend)
        need = new_pages * self.page_size
        if not self._fits(need, need):
            return None
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        if self._at_once is not None:
            return self._at_once.extend(*lens, last_loc, extend_num_tokens)
        last_peers = self._mapping.last_peers(last_loc)
        ids = self._extend(self._first, *lens, last_loc, extend_num_tokens)
        peers = self._extend(self._second, *lens, last_peers, extend_num_tokens)
        self._mapping.pair(ids, peers)
        return ids

    def free(self, free_index: Tensor, /) -> None:
        """Free slots and their peers, in any order.

        :raises ValueError: where the first allocator is strict and does not own one; nothing
            is freed.
        """
        self._first.free(free_index)
        self._free_peers(free_index)

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Free consecutive tokens of one request and their peers."""
        self._first.free_segment(free_index, start_pos=start_pos)
        self._free_peer_segment(free_index, start_pos)

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Free several segments of one request.

        :raises ValueError: when two share a page, or one does not begin on one; none is freed.
        """
        for free_index, start_pos in page_disjoint(segments, self.page_size):
            self.free_segment(free_index, start_pos=start_pos)

    def free_group_begin(self) -> None:
        """Hold freed slots back; whose peers they have is settled when they are freed."""
        self._first.free_group_begin()
        self._second.free_group_begin()

    def free_group_end(self) -> None:
        """Return what the group held back."""
        self._first.free_group_end()
        self._second.free_group_end()

    def clear(self) -> None:
        """Own nothing in either space; no location has a peer."""
        self._first.clear()
        self._second.clear()
        self._mapping.clear()

    def _fits(self, first: int, second: int) -> bool:
        return first <= self._first.available_size() and second <= self._second.available_size()

    def _extend(
        self,
        part: SlotAllocator,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor:
        if self.page_size == 1:
            return given(part.alloc(extend_num_tokens))
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        return given(cast("PagedAllocator", part).alloc_extend(*lens, last_loc, extend_num_tokens))

    def _free_peers(self, free_index: Tensor) -> None:
        """Free the peers of every page that one of `[n]` slots is on; waits for the device."""
        if free_index.shape[0]:
            pages = pages_touched(free_index, self.page_size)
            self._free_peer_pages(self._mapping.unpair_pages(pages))

    def _free_peer_segment(self, free_index: Tensor, start_pos: int) -> None:
        if start_pos % self.page_size:
            raise ValueError(f"start_pos={start_pos}: must begin a page of {self.page_size} tokens")
        if free_index.shape[0]:
            pages = pages_of(free_index[:: self.page_size], self.page_size)
            peers = self._mapping.unpair_pages(pages)
            if self._fixed_shape is not None:
                self._fixed_shape.free_mapped_pages(peers)
            else:
                self._free_peer_pages(peers)

    def _free_peer_pages(self, pages: Tensor) -> None:
        self._second.free(pages[pages > 0] * self.page_size)


def given(slots: Tensor | None) -> Tensor:
    """What an allocator must have, as it said so before.

    :raises RuntimeError: where it has not.
    """
    if slots is None:
        raise RuntimeError(
            "an allocator of the pair had fewer slots than its available_size() said"
        )
    return slots
