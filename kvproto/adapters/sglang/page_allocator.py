# pyright: basic, reportMissingImports=false
"""The reference page allocator, with what sglang's scheduler asks of every allocator."""

from __future__ import annotations

from collections.abc import Iterable
from types import MethodType
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.debug import maybe_validate
from kvproto.protocols import HostCopyable, require
from kvproto.reference import PageAllocator

__all__ = ["SGLangPageAllocator"]

_POLICY = frozenset(
    {
        "check_decode_capacity",
        "create_prefill_budget",
        "debug_print",
        "evict_to_free_tokens",
        "get_extend_allocation_demand",
        "mamba_full_cache_donor",
        "max_new_tokens_for_memory",
        "prealloc_ceiling_fits",
        "prealloc_fits",
        "prealloc_fits_assumes_reclaim",
        "request_slot_reserve",
        "set_hicache_transfer_done_event",
        "translate_kv_indices_for_transfer",
        "verify_byte_accounting",
    }
)
"""What sglang's scheduler asks every allocator, and answers itself from sizes and its own cache."""


class SGLangPageAllocator(PageAllocator):
    """`PageAllocator` behind the constructor and the calls of sglang's paged allocator.

    A size that ends inside a page is cut to whole pages. What is policy of sglang's scheduler
    (prefill budgets, evictions) is sglang's own code, asked with this allocator. With
    `KVPROTO_DEBUG=1` calls are validated.

    :raises ValueError: for a size below one page.
    """

    debug_mode = False
    """sglang's own check of its free list, which this allocator does not have."""

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: object,
        need_sort: bool,
    ) -> None:
        whole = size // page_size * page_size
        super().__init__(whole, page_size, dtype, device, kvcache, need_sort)
        maybe_validate(self)

    @property
    def size_full(self) -> int:
        """Token slots; there is no other space."""
        return self.size

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
        num_new_pages: int | None = None,
    ) -> Tensor | None:
        """As `PageAllocator.alloc_extend`, which counts the new pages itself."""
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        return super().alloc_extend(*lens, last_loc, extend_num_tokens)

    def free_page_ids(self, page_ids: Tensor) -> None:
        """Take back these pages, each named once."""
        self.free_mapped_pages(page_ids)

    def free_full(self, free_index: Tensor) -> None:
        """As `free`: there is no window beside the slots."""
        self.free(free_index)

    def free_full_segment(self, free_index: Tensor, *, start_pos: int) -> None:
        """As `free_segment`."""
        self.free_segment(free_index, start_pos=start_pos)

    def free_full_segments(self, segments: Iterable[tuple[Tensor, int]]) -> None:
        """As `free_segments`."""
        self.free_segments(segments)

    def get_cpu_copy(
        self, indices: Tensor, mamba_indices: Tensor | None = None, req_pool_index: Any = None
    ) -> Any:
        """The pool's copy of these slots."""
        return self._copies().get_cpu_copy(indices, mamba_indices, req_pool_index)

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: Any = None,
    ) -> None:
        """Have the pool restore a copy."""
        self._copies().load_cpu_copy(kv_cache_cpu, indices, mamba_indices, req_pool_index)

    def __getattr__(self, name: str) -> Any:
        """sglang's own function of that name, on this allocator, where it is the scheduler's."""
        if name not in _POLICY:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        from sglang.srt.mem_cache.allocator.base import BaseTokenToKVPoolAllocator

        return MethodType(getattr(BaseTokenToKVPoolAllocator, name), self)

    def _copies(self) -> HostCopyable:
        require(self._kvcache, HostCopyable, for_="sglang's copies to the host")
        return cast("HostCopyable", self._kvcache)
