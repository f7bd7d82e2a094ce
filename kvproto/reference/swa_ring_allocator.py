"""Full slots of a model whose window layers keep a ring per request: only those are lent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor

from kvproto.kernels.peer_table import no_peers
from kvproto.protocols import (
    PagedAllocator,
    RequestPool,
    RequestRingSWA,
    SlotAllocator,
    require,
    supports,
)

__all__ = ["SWARingAllocator"]


class SWARingAllocator:
    """The full allocator's slots; a row of the request table brings its ring with it.

    Both are injected, whoever made them; above page size 1 the allocator must be a
    `PagedAllocator`. No location has a window peer, so frees of the window side free nothing.
    What the window has is counted in the rows that are free: `swa_ring_cost_tokens` each.

    :raises ValueError: for a ring below one slot, or of another size than the pool's.
    :raises CapabilityError: for an allocator or a request table that cannot do its part.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    page_size: int
    device: torch.device
    full_attn_allocator: SlotAllocator
    req_to_token_pool: RequestPool
    swa_ring_cost_tokens: int

    def __init__(
        self,
        *,
        full_attn_allocator: SlotAllocator,
        req_to_token_pool: RequestPool,
        swa_req_ring_size: int,
        kvcache: object,
    ) -> None:
        called = "window layers with a ring per request"
        require(full_attn_allocator, SlotAllocator, for_=called)
        if full_attn_allocator.page_size > 1:
            require(full_attn_allocator, PagedAllocator, for_=f"{called} and pages")
        require(req_to_token_pool, RequestPool, for_=called)
        if swa_req_ring_size < 1:
            raise ValueError(f"swa_req_ring_size={swa_req_ring_size}: must be at least 1")
        _check_pool(kvcache, swa_req_ring_size)
        self.full_attn_allocator = full_attn_allocator
        self.req_to_token_pool = req_to_token_pool
        self.page_size = full_attn_allocator.page_size
        self.device = torch.device(full_attn_allocator.device)
        self.swa_ring_cost_tokens = -(-swa_req_ring_size // self.page_size) * self.page_size
        self._kvcache = kvcache

    @property
    def swa_req_ring(self) -> bool:
        """Whether the window is kept in rings: it is."""
        return True

    @property
    def size(self) -> int:
        """Full slots: what `available_size` counts."""
        return self.size_full

    @property
    def size_full(self) -> int:
        """Token slots of the full space."""
        return self.full_attn_allocator.size

    @property
    def size_swa(self) -> int:
        """Slots of the rings of all rows, each in whole pages."""
        rows = self.req_to_token_pool.size + self.req_to_token_pool.pre_alloc_size
        return rows * self.swa_ring_cost_tokens

    def get_kvcache(self) -> object:
        """The pool that was given to the constructor."""
        return self._kvcache

    def available_size(self) -> int:
        """Full slots that can be allocated: a request that runs has its ring already."""
        return self.full_available_size()

    def full_available_size(self) -> int:
        """The same."""
        return self.full_attn_allocator.available_size()

    def swa_available_size(self) -> int:
        """Slots of the rings of rows that are free."""
        return self.req_to_token_pool.available_size() * self.swa_ring_cost_tokens

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        """0, and -1 for negative locations, int64, same shape: no location has a peer."""
        return no_peers(kv_indices)

    def alloc(self, need_size: int, /) -> Tensor | None:
        """Whole pages of the full space, or None and no change where there are too few."""
        return self.full_attn_allocator.alloc(need_size)

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """Full slots that continue each request, as `PagedAllocator` says."""
        if self.page_size == 1:
            return self.full_attn_allocator.alloc(extend_num_tokens)
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        return self._paged.alloc_extend(*lens, last_loc, extend_num_tokens)

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        """A full slot for the last token of each request, as `PagedAllocator` says."""
        if self.page_size == 1:
            return self.full_attn_allocator.alloc(seq_lens.shape[0])
        return self._paged.alloc_decode(seq_lens, seq_lens_cpu, last_loc)

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
        """`alloc_extend` of one request: the tail's window slots are in its ring.

        :raises ValueError: for more than one request, or a tail longer than what is new.
        """
        if seq_lens_cpu.shape[0] != 1 or not 0 <= swa_tail_len <= extend_num_tokens:
            raise ValueError(
                f"{seq_lens_cpu.shape[0]} requests with swa_tail_len={swa_tail_len} of "
                f"{extend_num_tokens} tokens: must be one request and a part of them"
            )
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        return self.alloc_extend(*lens, last_loc, extend_num_tokens)

    @property
    def _paged(self) -> PagedAllocator:
        return cast("PagedAllocator", self.full_attn_allocator)

    def free(self, free_index: Tensor, /) -> None:
        """Free full slots, in any order."""
        self.full_attn_allocator.free(free_index)

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Free consecutive tokens of one request."""
        self.full_attn_allocator.free_segment(free_index, start_pos=start_pos)

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Free several segments of one request."""
        self.full_attn_allocator.free_segments(segments)

    def free_full(self, free_index: Tensor, /) -> None:
        """`free`."""
        self.free(free_index)

    def free_full_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """`free_segment`."""
        self.free_segment(free_index, start_pos=start_pos)

    def free_swa(self, free_index: Tensor, /) -> None:
        """Nothing: a ring goes with its row."""

    def free_swa_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Nothing, as `free_swa`."""

    def free_group_begin(self) -> None:
        """Hold freed slots back from now on."""
        self.full_attn_allocator.free_group_begin()

    def free_group_end(self) -> None:
        """Return what the group held back."""
        self.full_attn_allocator.free_group_end()

    def clear(self) -> None:
        """Own nothing of the full space; rows and their rings are the request table's to clear."""
        self.full_attn_allocator.clear()


def _check_pool(kvcache: object, ring: int) -> None:
    if supports(kvcache, RequestRingSWA) and kvcache.swa_req_ring_size != ring:
        raise ValueError(
            f"swa_req_ring_size={ring}: the pool has rings of {kvcache.swa_req_ring_size}"
        )
