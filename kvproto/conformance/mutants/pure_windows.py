"""Allocators of window layers alone, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These allocators are wrong on purpose, some of them below their doors.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import PureSWAAllocatorRequest
from kvproto.reference.pure_swa_allocator import PureSWAAllocator

from .registry import mutant


def pure(cls: Any, request: PureSWAAllocatorRequest) -> Any:
    """An allocator of one space."""
    return cls(request.size_swa, 1, torch.int64, request.device, None, request.need_sort)


@mutant("pure-swa.identity", serves=PureSWAAllocatorRequest, build=pure)
class TranslatesFreeSlots(PureSWAAllocator):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return kv_indices.clamp(min=-1).to(torch.int64)


@mutant("pure-swa.translate", serves=PureSWAAllocatorRequest, build=pure)
class PassesNegativeSlotsOn(PureSWAAllocator):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return torch.where(
            kv_indices < 0, kv_indices, super().translate_loc_from_full_to_swa(kv_indices)
        )


@mutant("pure-swa.evict", serves=PureSWAAllocatorRequest, build=pure)
class FreesASlotOncePerSide(PureSWAAllocator):
    def free_full(self, free_index: Tensor, /) -> None:
        self.free(free_index)

    def free_full_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        self.free(free_index)


@mutant("pure-swa.tail", serves=PureSWAAllocatorRequest, build=pure)
class LendsSlotsBeforeTheTail(PureSWAAllocator):
    def alloc_extend_swa_tail(self, *lens: Any, **named: Any) -> Tensor | None:
        return self.alloc(lens[5])


@mutant("pure-swa.sync-free", serves=PureSWAAllocatorRequest, build=pure)
class FiltersWhatHasNoSlot(PureSWAAllocator):
    def free_swa_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        self.free(free_index[free_index > 0])


@mutant("pure-swa.model", serves=PureSWAAllocatorRequest, build=pure)
class KeepsPeersInsideGroups(PureSWAAllocator):
    def free_swa(self, free_index: Tensor, /) -> None:
        before = self._mapping.table.clone()
        super().free_swa(free_index)
        slots: Any = self._slots
        if slots._free._group is not None:
            self._mapping.table.copy_(before)
