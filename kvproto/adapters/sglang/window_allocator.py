# pyright: basic, reportMissingImports=false
"""The reference allocator of window pairs, with what sglang's scheduler asks of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, cast

from torch import Tensor

from kvproto.debug import maybe_validate
from kvproto.protocols import SlotAllocator
from kvproto.reference import SWAPairAllocator

from .scheduler_calls import SchedulerCalls

__all__ = ["SGLangSWAAllocator"]


class SGLangSWAAllocator(SchedulerCalls, SWAPairAllocator):
    """`SWAPairAllocator` with the calls of sglang's allocator of window pairs.

    Policy is sglang's own code, as in `SGLangPageAllocator`. With `KVPROTO_DEBUG=1` calls are
    validated.

    :raises ValueError, CapabilityError: as `SWAPairAllocator`.
    """

    policy: ClassVar[frozenset[str]] = SchedulerCalls.policy | {
        "reclaim_for_prealloc",
        "swa_capacity_and_available",
    }
    swa_req_ring = False
    """sglang asks every pair if its window is a ring per request."""

    def __init__(
        self,
        *,
        full_attn_allocator: SlotAllocator,
        swa_attn_allocator: SlotAllocator,
        kvcache: object,
    ) -> None:
        SWAPairAllocator.__init__(
            self,
            full_attn_allocator=full_attn_allocator,
            swa_attn_allocator=swa_attn_allocator,
            kvcache=kvcache,
        )
        maybe_validate(self)

    @staticmethod
    def policy_class() -> type:
        """sglang's class whose functions these are."""
        from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator

        return cast("type", SWATokenToKVPoolAllocator)

    def translate_swa_indices_for_transfer(self, kv_indices: Tensor) -> Tensor:
        """As `translate_loc_from_full_to_swa`."""
        return self.translate_loc_from_full_to_swa(kv_indices)

    def free_full_segments(self, segments: Iterable[tuple[Tensor, int]]) -> None:
        """`free_full_segment` of several segments of one request."""
        self.free_segments(segments)
