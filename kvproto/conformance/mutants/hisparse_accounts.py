"""Allocators of ids over a smaller device, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These allocators are wrong on purpose, some of them below their doors.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import AllocatorRequest, HiSparseAllocatorRequest
from kvproto.reference.hisparse import DeviceLocations
from kvproto.reference.hisparse_allocator import DeviceSubsetAllocator
from kvproto.reference.paged_allocator import PageAllocator

from .account_builders import alone
from .registry import mutant


def over_device(cls: Any, request: HiSparseAllocatorRequest) -> Any:
    """Ids and device slots, and the translation that `cls.locations` names."""
    ids, device = (_side(request, size) for size in (request.size_logical, request.size))
    return cls(
        logical_attn_allocator=ids,
        hisparse_attn_allocator=device,
        kvcache=getattr(cls, "locations", DeviceLocations)(),
    )


def _side(request: HiSparseAllocatorRequest, size: int) -> Any:
    side = AllocatorRequest(
        kind="paged",
        size=size,
        page_size=request.page_size,
        device=request.device,
        need_sort=request.need_sort,
    )
    return alone(PageAllocator, side)


@mutant("hisparse-alloc.mapping", serves=HiSparseAllocatorRequest, build=over_device)
class ForgetsToPlaceWhatIsExtended(DeviceSubsetAllocator):
    def alloc_extend(self, *lens: Any, **named: Any) -> Tensor | None:
        ids = super().alloc_extend(*lens, **named)
        if ids is not None:
            self._mapping.unpair(ids[-1:])
        return ids


@mutant("hisparse-alloc.logical-only", serves=HiSparseAllocatorRequest, build=over_device)
class TakesDeviceSlotsForEveryId(DeviceSubsetAllocator):
    def alloc_logical_only(self, *lens: Any, **named: Any) -> Tensor | None:
        return super().alloc_extend(*lens, **named)


@mutant("hisparse-alloc.logical-only", serves=HiSparseAllocatorRequest, build=over_device)
class ContinuesOnTheReservedDevicePage(DeviceSubsetAllocator):
    def alloc_extend(self, *lens: Any, **named: Any) -> Tensor | None:
        ids = super().alloc_extend(*lens, **named)
        if ids is not None:
            orphans = ids[self._mapping.translate(ids) == 0]
            self._mapping.table[orphans] = orphans % self.page_size
        return ids


@mutant("hisparse-alloc.buffer", serves=HiSparseAllocatorRequest, build=over_device)
class KeepsTheSurplus(DeviceSubsetAllocator):
    keeping = False

    def alloc_device_buffer(self, allocated_indices: Tensor, need_size: int, /) -> Tensor | None:
        self.keeping = True
        slots = super().alloc_device_buffer(allocated_indices, need_size)
        self.keeping = False
        return slots

    def _free_peer_pages(self, pages: Tensor) -> None:
        if not self.keeping:
            super()._free_peer_pages(pages)


@mutant("hisparse-alloc.buffer", serves=HiSparseAllocatorRequest, build=over_device)
class LeavesIdsInTheBuffer(DeviceSubsetAllocator):
    def alloc_device_buffer(self, allocated_indices: Tensor, need_size: int, /) -> Tensor | None:
        before = self._mapping.table.clone()
        slots = super().alloc_device_buffer(allocated_indices, need_size)
        self._mapping.table.copy_(before)
        return slots


@mutant(
    "alloc.all-or-nothing",
    source="sgl-project/sglang#34399",
    serves=HiSparseAllocatorRequest,
    build=over_device,
)
class UnmapsBeforeItCounts(DeviceSubsetAllocator):
    def alloc_device_buffer(self, allocated_indices: Tensor, need_size: int, /) -> Tensor | None:
        slots = super().alloc_device_buffer(allocated_indices, need_size)
        self._mapping.unpair(allocated_indices)
        return slots


@mutant("hisparse-alloc.free-device", serves=HiSparseAllocatorRequest, build=over_device)
class ClearsTheNamedIdsOnly(DeviceSubsetAllocator):
    def free_hisparse(self, free_indices: Tensor, /) -> None:
        before = self._mapping.table.clone()
        super().free_hisparse(free_indices)
        before[free_indices.clamp(min=0)] = 0
        self._mapping.table.copy_(before)


@mutant("hisparse-alloc.free-slots", serves=HiSparseAllocatorRequest, build=over_device)
class FreesSlotsAsIds(DeviceSubsetAllocator):
    def free_hisparse_indices(self, buffer_indices: Tensor, /) -> None:
        self.free_hisparse(buffer_indices)


class _Wrapping(DeviceLocations):
    def translate_loc_to_hisparse_device(self, indices: Tensor, /) -> Tensor:
        table = self.full_to_hisparse_device_index_mapping
        assert table is not None
        return table[:-1][indices]


@mutant(
    "hisparse-alloc.translate",
    serves=HiSparseAllocatorRequest,
    build=over_device,
)
class TranslatesFromTheEndOfTheTable(DeviceSubsetAllocator):
    locations = _Wrapping

    def alloc(self, need_size: int, /) -> Tensor | None:
        ids = super().alloc(need_size)
        self._mapping.table[-10:-1] = torch.arange(9) + self.page_size
        return ids


@mutant("hisparse-alloc.model", serves=HiSparseAllocatorRequest, build=over_device)
class FreesBuffersAtOnceInsideGroups(DeviceSubsetAllocator):
    def free_hisparse_indices(self, buffer_indices: Tensor, /) -> None:
        device: Any = self.hisparse_attn_allocator
        group, device._free._group = device._free._group, None
        super().free_hisparse_indices(buffer_indices)
        device._free._group = group
