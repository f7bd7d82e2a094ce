"""Allocators of window pairs, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These allocators are wrong on purpose, some of them below their doors.

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from kvproto.protocols import (
    SWAAllocatorRequest,
)
from kvproto.reference.swa_allocator import SWAPairAllocator

from .account_builders import Trusting, paired
from .registry import mutant


@mutant(
    "alloc.all-or-nothing",
    source="sgl-project/sglang#29662",
    serves=SWAAllocatorRequest,
    build=paired,
)
class LooksAtTheFullSpaceOnly(SWAPairAllocator):
    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        slots = super().alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        if slots is None and self.page_size > 1:
            full: Any = self.full_attn_allocator
            full.alloc_decode(seq_lens, seq_lens_cpu, last_loc)
        return slots


@mutant("swa-alloc.mapping", serves=SWAAllocatorRequest, build=paired)
class ForgetsDecodedPeers(SWAPairAllocator):
    def alloc_decode(self, *lens: Any) -> Tensor | None:
        slots = super().alloc_decode(*lens)
        if slots is not None:
            self._mapping.unpair(slots)
        return slots


@mutant(
    "swa-alloc.tail", source="sgl-project/sglang#25805", serves=SWAAllocatorRequest, build=paired
)
class KeepsPeersWithoutATail(SWAPairAllocator):
    def alloc_extend_swa_tail(self, *lens: Any, **named: Any) -> Tensor | None:
        before = self._mapping.table.clone()
        slots = super().alloc_extend_swa_tail(*lens, **named)
        if slots is not None and lens[-1] == 0:
            self._mapping.table.copy_(before)
        return slots


@mutant(
    "swa-alloc.page-lifetime",
    source="sgl-project/sglang#27779",
    serves=SWAAllocatorRequest,
    build=paired,
)
class ClearsTheTokenOnly(SWAPairAllocator):
    def free_swa(self, free_index: Tensor, /) -> None:
        before = self._mapping.table.clone()
        super().free_swa(free_index)
        before[free_index] = 0
        self._mapping.table.copy_(before)


@mutant(
    "swa-alloc.segment-unmapped",
    source="sgl-project/sglang#38519",
    serves=SWAAllocatorRequest,
    build=paired,
)
class FreesTheReservedWindowPage(SWAPairAllocator):
    free_list: ClassVar = Trusting


@mutant(
    "swa-alloc.evict-then-free",
    source="sgl-project/sglang#27586",
    serves=SWAAllocatorRequest,
    build=paired,
)
class FreesThroughAStaleMapping(SWAPairAllocator):
    free_list: ClassVar = Trusting

    def free_swa(self, free_index: Tensor, /) -> None:
        before = self._mapping.table.clone()
        super().free_swa(free_index)
        self._mapping.table.copy_(before)


@mutant(
    "swa-alloc.translate",
    source="lightseekorg/tokenspeed#709",
    serves=SWAAllocatorRequest,
    build=paired,
)
class TranslatesFromTheEnd(SWAPairAllocator):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return self._mapping.table[:-1][kv_indices]


@mutant(
    "swa-alloc.sync-free",
    source="sgl-project/sglang#36751",
    serves=SWAAllocatorRequest,
    build=paired,
)
class FiltersUnmappedSlots(SWAPairAllocator):
    def free_swa_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        super().free_swa(free_index)


@mutant("swa-alloc.model", serves=SWAAllocatorRequest, build=paired)
class ContinuesOnTheReservedPage(SWAPairAllocator):
    def alloc_decode(self, *lens: Any) -> Tensor | None:
        slots = super().alloc_decode(*lens)
        if slots is not None:
            orphans = slots[self._mapping.translate(slots) == 0]
            self._mapping.table[orphans] = orphans % self.page_size
        return slots
