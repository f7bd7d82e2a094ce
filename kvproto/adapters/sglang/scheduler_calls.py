# pyright: basic, reportMissingImports=false
"""What sglang's scheduler asks of every allocator beyond lending and taking back."""

from __future__ import annotations

from collections.abc import Iterable
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, cast

from torch import Tensor

from kvproto.protocols import HostCopyable, require
from kvproto.reference.slot_allocator import FreeListAllocator

__all__ = ["OneSpaceCalls", "SchedulerCalls"]


class SchedulerCalls:
    """Copies to the host, and the scheduler's policy: sglang's own code, asked of this allocator.

    Goes before an allocator of `kvproto.reference` among the bases of a class.
    """

    policy: ClassVar[frozenset[str]] = frozenset(
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
    """What it asks every allocator, and answers itself from sizes and its own cache."""
    _kvcache: object

    @staticmethod
    def policy_class() -> type:
        """sglang's class whose functions these are."""
        from sglang.srt.mem_cache.allocator.base import BaseTokenToKVPoolAllocator

        return cast("type", BaseTokenToKVPoolAllocator)

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
        if name not in type(self).policy:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return MethodType(getattr(self.policy_class(), name), self)

    def _copies(self) -> HostCopyable:
        require(self._kvcache, HostCopyable, for_="sglang's copies to the host")
        return cast("HostCopyable", self._kvcache)


class OneSpaceCalls(SchedulerCalls, FreeListAllocator):
    """The same of an allocator of one space, with the names that only matter where there are two.

    sglang's check of every owner's pages looks for slots that were freed twice in `free_pages`.
    """

    debug_mode = False
    """sglang's own check of its free list, which this allocator does not have."""

    if TYPE_CHECKING:

        def free(self, free_index: Tensor, /) -> None: ...

    @property
    def size_full(self) -> int:
        """Token slots; there is no other space."""
        return self.size

    @property
    def free_pages(self) -> Tensor:
        """As `get_all_free_pages`."""
        return self.get_all_free_pages()

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
