"""Slots of a full and of a window space, lent together, the window's freed earlier."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from kvproto.kernels.page_slots import pages_of, pages_touched
from kvproto.protocols import Capability, PagedAllocator, SlotAllocator, SWACapable, require

from .page_demand import pages_to_decode, pages_to_extend
from .slot_allocator import page_disjoint
from .swa_mapping import WindowMapping

__all__ = ["MappedPageFree", "SWAPairAllocator"]


@runtime_checkable
class MappedPageFree(Capability, Protocol):
    """Can the allocator take back pages of which some are none, without a host sync?"""

    def free_mapped_pages(self, pages: Tensor, /) -> None:
        """Take pages back, `[n]` int64; 0 stands for none."""
        ...


class SWAPairAllocator:
    """Two allocators in step: the ids lent are the full one's.

    Both are injected, whoever made them; above page size 1 they must be `PagedAllocator`s. A
    pool that is `SWACapable` is given the mapping. Frees of `MappedPageFree` window allocators
    do not wait for a device; for others the locations without a peer are filtered out first.

    :raises ValueError: for different page sizes.
    :raises CapabilityError: for an allocator that cannot do its part.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    page_size: int
    device: torch.device
    full_attn_allocator: SlotAllocator
    swa_attn_allocator: SlotAllocator
    full_to_swa_index_mapping: Tensor

    def __init__(
        self,
        *,
        full_attn_allocator: SlotAllocator,
        swa_attn_allocator: SlotAllocator,
        kvcache: object,
    ) -> None:
        full, swa = full_attn_allocator, swa_attn_allocator
        for part in (full, swa):
            require(part, SlotAllocator, for_="a full and window pair")
        if full.page_size != swa.page_size:
            raise ValueError(
                f"page_size={full.page_size} of the full allocator and {swa.page_size} of the "
                "window allocator must be the same"
            )
        for part in (full, swa) if full.page_size > 1 else ():
            require(part, PagedAllocator, for_="a full and window pair with pages")
        self.full_attn_allocator, self.swa_attn_allocator = full, swa
        self.page_size, self.device = full.page_size, torch.device(full.device)
        self._kvcache = kvcache
        self._mapping = WindowMapping(full.size, self.page_size, self.device)
        self.full_to_swa_index_mapping = self._mapping.table
        self._fixed_shape = swa if isinstance(swa, MappedPageFree) else None
        if isinstance(kvcache, SWACapable):
            kvcache.register_mapping(self._mapping.table)

    @property
    def size(self) -> int:
        """The smaller of the two sizes."""
        return min(self.size_full, self.size_swa)

    @property
    def size_full(self) -> int:
        """Token slots of the full space."""
        return self.full_attn_allocator.size

    @property
    def size_swa(self) -> int:
        """Token slots of the window space."""
        return self.swa_attn_allocator.size

    def get_kvcache(self) -> object:
        """The pool that was given to the constructor."""
        return self._kvcache

    def available_size(self) -> int:
        """What both spaces have."""
        return min(self.full_available_size(), self.swa_available_size())

    def full_available_size(self) -> int:
        """Full slots that can be allocated."""
        return self.full_attn_allocator.available_size()

    def swa_available_size(self) -> int:
        """Window slots that can be allocated."""
        return self.swa_attn_allocator.available_size()

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        """Window locations, int64, same shape: 0 without a peer, -1 for negative ones."""
        return self._mapping.translate(kv_indices)

    def alloc(self, need_size: int, /) -> Tensor | None:
        """Whole pages of both spaces, or None and no change where either has too few."""
        if not self._fits(need_size, need_size):
            return None
        full = _given(self.full_attn_allocator.alloc(need_size))
        self._mapping.pair(full, _given(self.swa_attn_allocator.alloc(need_size)))
        return full

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
        """
        new_pages, _ = pages_to_extend(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        need = new_pages * self.page_size
        if not self._fits(need, need):
            return None
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        last_peers = self._mapping.last_peers(last_loc)
        full = self._extend(self.full_attn_allocator, *lens, last_loc, extend_num_tokens)
        window = self._extend(self.swa_attn_allocator, *lens, last_peers, extend_num_tokens)
        self._mapping.pair(full, window)
        return full

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        """A slot for the last token of each request, with a peer, as `PagedAllocator` says."""
        need = pages_to_decode(seq_lens_cpu, self.page_size) * self.page_size
        if self.page_size == 1:
            return self.alloc(need)
        if not self._fits(need, need):
            return None
        full_side = cast("PagedAllocator", self.full_attn_allocator)
        swa_side = cast("PagedAllocator", self.swa_attn_allocator)
        last_peers = self._mapping.last_peers(last_loc)
        full = _given(full_side.alloc_decode(seq_lens, seq_lens_cpu, last_loc))
        self._mapping.pair(full, _given(swa_side.alloc_decode(seq_lens, seq_lens_cpu, last_peers)))
        return full

    def alloc_extend_swa_tail(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
        swa_tail_len: int,
    ) -> Tensor | None:
        """As `alloc_extend` for one request, with peers for its last `swa_tail_len` tokens only.

        Waits for the device where the tail begins on the prefix's last page.

        :raises ValueError: for more than one request, or a tail longer than what is new.
        """
        if seq_lens_cpu.shape[0] != 1 or not 0 <= swa_tail_len <= extend_num_tokens:
            raise ValueError(
                f"{seq_lens_cpu.shape[0]} requests with swa_tail_len={swa_tail_len} of "
                f"{extend_num_tokens} tokens: must be one request and a part of them"
            )
        prefix, seq = int(prefix_lens_cpu[0]), int(seq_lens_cpu[0])
        start = seq - swa_tail_len
        last_peer = self._peer_to_continue(last_loc, prefix, start) if swa_tail_len else None
        # Without one the tail's first page is new, however far into it the tail begins.
        begin = start if last_peer is not None else start // self.page_size * self.page_size
        window_need = self._pages_between(begin, seq) if swa_tail_len else 0
        if not self._fits(self._pages_between(prefix, seq), window_need):
            return None
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        full = self._extend(self.full_attn_allocator, *lens, last_loc, extend_num_tokens)
        self._mapping.unpair(full[: extend_num_tokens - swa_tail_len])
        if swa_tail_len:
            window = self._extend_window(begin, seq, last_peer)
            self._mapping.pair(full[-swa_tail_len:], window[-swa_tail_len:])
        return full

    def free(self, free_index: Tensor, /) -> None:
        """Free full slots and their peers, in any order.

        :raises ValueError: where the full allocator is strict and does not own one; nothing
            is freed.
        """
        self.full_attn_allocator.free(free_index)
        self.free_swa(free_index)

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Free consecutive tokens of one request and their peers."""
        self.full_attn_allocator.free_segment(free_index, start_pos=start_pos)
        self.free_swa_segment(free_index, start_pos=start_pos)

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Free several segments of one request.

        :raises ValueError: when two share a page, or one does not begin on one; none is freed.
        """
        for free_index, start_pos in page_disjoint(segments, self.page_size):
            self.free_segment(free_index, start_pos=start_pos)

    def free_swa(self, free_index: Tensor, /) -> None:
        """Free the peers of every page that one of `[n]` slots is on; waits for the device."""
        if free_index.shape[0]:
            pages = pages_touched(free_index, self.page_size)
            self._free_window_pages(self._mapping.unpair_pages(pages))

    def free_swa_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Free the peers of consecutive tokens of one request; those without are skipped.

        :raises ValueError: when token `start_pos` does not begin a page.
        """
        if start_pos % self.page_size:
            raise ValueError(f"start_pos={start_pos}: must begin a page of {self.page_size} tokens")
        if free_index.shape[0]:
            pages = pages_of(free_index[:: self.page_size], self.page_size)
            window = self._mapping.unpair_pages(pages)
            if self._fixed_shape is not None:
                self._fixed_shape.free_mapped_pages(window)
            else:
                self._free_window_pages(window)

    def free_full(self, free_index: Tensor, /) -> None:
        """Free full slots whose peers were freed before; peers that are left go with them."""
        self.free(free_index)

    def free_full_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """`free_full` of consecutive tokens of one request."""
        self.free_segment(free_index, start_pos=start_pos)

    def set_full_to_swa_mapping(self, full_indices: Tensor, swa_indices: Tensor, /) -> None:
        """Give full locations these peers, by whole pages; the ones they had are not freed."""
        self._mapping.pair(full_indices.to(torch.int64), swa_indices)

    def clear_full_to_swa_mapping(self, full_indices: Tensor, /) -> None:
        """Leave full locations without peers; the ones they had are not freed."""
        self._mapping.unpair(full_indices.to(torch.int64))

    def free_group_begin(self) -> None:
        """Hold freed slots back; whose peers they have is settled when they are freed."""
        self.full_attn_allocator.free_group_begin()
        self.swa_attn_allocator.free_group_begin()

    def free_group_end(self) -> None:
        """Return what the group held back."""
        self.full_attn_allocator.free_group_end()
        self.swa_attn_allocator.free_group_end()

    def clear(self) -> None:
        """Own nothing in either space; no location has a peer."""
        self.full_attn_allocator.clear()
        self.swa_attn_allocator.clear()
        self._mapping.clear()

    def _fits(self, full: int, window: int) -> bool:
        return full <= self.full_available_size() and window <= self.swa_available_size()

    def _pages_between(self, prefix: int, seq: int) -> int:
        """Slots of the pages that tokens `prefix .. seq - 1` begin."""
        return (-(-seq // self.page_size) + (-prefix // self.page_size)) * self.page_size

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
            return _given(part.alloc(extend_num_tokens))
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        return _given(cast("PagedAllocator", part).alloc_extend(*lens, last_loc, extend_num_tokens))

    def _extend_window(self, begin: int, seq: int, last_peer: Tensor | None) -> Tensor:
        """Window slots of one request's tokens `begin .. seq - 1`."""
        before, after = torch.tensor([begin]), torch.tensor([seq])
        last = before.new_full((1,), -1) if last_peer is None else last_peer
        lens = (before.to(self.device), before, after.to(self.device), after)
        return self._extend(self.swa_attn_allocator, *lens, last.to(self.device), seq - begin)

    def _peer_to_continue(self, last_loc: Tensor, prefix: int, start: int) -> Tensor | None:
        """The peer of token `start - 1`, real or next in line, where the page before has one."""
        if prefix % self.page_size == 0 or start // self.page_size != prefix // self.page_size:
            return None
        peer = self._mapping.translate(last_loc)
        return peer + (start - prefix) if int(peer) > 0 else None

    def _free_window_pages(self, window: Tensor) -> None:
        self.swa_attn_allocator.free(window[window > 0] * self.page_size)


def _given(slots: Tensor | None) -> Tensor:
    if slots is None:
        raise RuntimeError(
            "an allocator of the pair had fewer slots than its available_size() said"
        )
    return slots
