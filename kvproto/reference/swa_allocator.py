"""Slots of a full and of a window space, lent together, the window's freed earlier."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from kvproto.protocols import PagedAllocator, SlotAllocator, SWACapable

from .mapped_pair import MappedPair, given
from .page_demand import check_tokens, pages_to_decode

__all__ = ["SWAPairAllocator"]


class SWAPairAllocator(MappedPair):
    """Two allocators in step: the ids lent are the full one's.

    Both are injected, whoever made them; above page size 1 they must be `PagedAllocator`s. A
    pool that is `SWACapable` is given the mapping. Frees of `MappedPageFree` window allocators
    do not wait for a device; for others the locations without a peer are filtered out first.

    :raises ValueError: for different page sizes.
    :raises CapabilityError: for an allocator that cannot do its part.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
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
        super().__init__(full_attn_allocator, swa_attn_allocator, kvcache, roles=("full", "window"))
        self.full_attn_allocator, self.swa_attn_allocator = full_attn_allocator, swa_attn_allocator
        self.full_to_swa_index_mapping = self._mapping.table
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

    def full_available_size(self) -> int:
        """Full slots that can be allocated."""
        return self.full_attn_allocator.available_size()

    def swa_available_size(self) -> int:
        """Window slots that can be allocated."""
        return self.swa_attn_allocator.available_size()

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        """Window locations, int64, same shape: 0 without a peer, -1 for negative ones."""
        return self._mapping.translate(kv_indices)

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        """A slot for the last token of each request, with a peer, as `PagedAllocator` says."""
        need = pages_to_decode(seq_lens_cpu, self.page_size) * self.page_size
        if self.page_size == 1:
            return self.alloc(need)
        if not self._fits(need, need):
            return None
        if self._at_once is not None:
            return self._at_once.decode(seq_lens, seq_lens_cpu, last_loc)
        full_side = cast("PagedAllocator", self.full_attn_allocator)
        swa_side = cast("PagedAllocator", self.swa_attn_allocator)
        last_peers = self._mapping.last_peers(last_loc)
        full = given(full_side.alloc_decode(seq_lens, seq_lens_cpu, last_loc))
        self._mapping.pair(full, given(swa_side.alloc_decode(seq_lens, seq_lens_cpu, last_peers)))
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

        :raises ValueError: for more than one request, a tail longer than what is new, or an
            `extend_num_tokens` that is not what the lengths add up to.
        """
        if seq_lens_cpu.shape[0] != 1 or not 0 <= swa_tail_len <= extend_num_tokens:
            raise ValueError(
                f"{seq_lens_cpu.shape[0]} requests with swa_tail_len={swa_tail_len} of "
                f"{extend_num_tokens} tokens: must be one request and a part of them"
            )
        prefix, seq = int(prefix_lens_cpu[0]), int(seq_lens_cpu[0])
        check_tokens(extend_num_tokens, seq - prefix)
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

    def free_swa(self, free_index: Tensor, /) -> None:
        """Free the peers of every page that one of `[n]` slots is on; waits for the device."""
        self._free_peers(free_index)

    def free_swa_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Free the peers of consecutive tokens of one request; those without are skipped.

        :raises ValueError: when token `start_pos` does not begin a page.
        """
        self._free_peer_segment(free_index, start_pos)

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

    def _pages_between(self, prefix: int, seq: int) -> int:
        """Slots of the pages that tokens `prefix .. seq - 1` begin."""
        return (-(-seq // self.page_size) + (-prefix // self.page_size)) * self.page_size

    def _extend_window(self, begin: int, seq: int, last_peer: Tensor | None) -> Tensor:
        """Window slots of one request's tokens `begin .. seq - 1`."""
        before, after = (torch.tensor([each], device="cpu") for each in (begin, seq))
        last = before.new_full((1,), -1) if last_peer is None else last_peer
        lens = (before.to(self.device), before, after.to(self.device), after)
        return self._extend(self.swa_attn_allocator, *lens, last.to(self.device), seq - begin)

    def _peer_to_continue(self, last_loc: Tensor, prefix: int, start: int) -> Tensor | None:
        """The peer of token `start - 1`, real or next in line, where the page before has one."""
        if prefix % self.page_size == 0 or start // self.page_size != prefix // self.page_size:
            return None
        peer = self._mapping.translate(last_loc)
        return peer + (start - prefix) if int(peer) > 0 else None
