"""Pools and accounts of window layers in rings, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These are wrong on purpose, some of them below their doors.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import (
    BufferRegion,
    Declined,
    MHALeafRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
)
from kvproto.reference import MHALeaf, build_reference_leaf
from kvproto.reference.build_allocator import build_rows, build_single
from kvproto.reference.swa import FULL
from kvproto.reference.swa_ring import SWARingPool, swa_ring_pool
from kvproto.reference.swa_ring_allocator import SWARingAllocator

from .registry import mutant


def ringed(cls: Any, request: SWARingPoolRequest) -> Any:
    """A pool of rings over reference leaves."""
    full, window = (build_reference_leaf(side) for side in (request.pair.full, request.pair.window))
    if isinstance(full, Declined) or isinstance(window, Declined):
        return Declined("no reference leaf")
    return cls(
        full_kv_pool=full,
        swa_kv_pool=window,
        full_attention_layer_ids=request.pair.full_attention_layer_ids,
        swa_attention_layer_ids=request.pair.swa_attention_layer_ids,
        swa_req_ring_size=request.swa_req_ring_size,
    )


def over_window_leaf(cls: Any, request: SWARingPoolRequest) -> Any:
    """The reference's pool, whose window leaf is of the class, and wrong."""
    pair = request.pair
    if not isinstance(pair.window, MHALeafRequest):
        return Declined(f"{cls.__name__} keeps rows by head")
    full = build_reference_leaf(pair.full)
    if isinstance(full, Declined):
        return full
    return swa_ring_pool(
        full_kv_pool=full,
        swa_kv_pool=cls(**pair.window.keywords()),
        full_attention_layer_ids=pair.full_attention_layer_ids,
        swa_attention_layer_ids=pair.swa_attention_layer_ids,
        swa_req_ring_size=request.swa_req_ring_size,
    )


def beside_rings(cls: Any, request: SWARingAllocatorRequest) -> Any:
    """The accounts beside rings."""
    return cls(
        full_attn_allocator=build_single(request.full),
        req_to_token_pool=build_rows(request.rows),
        swa_req_ring_size=request.swa_req_ring_size,
        kvcache=None,
    )


@mutant("request-ring.values", serves=SWARingPoolRequest, build=ringed)
class BudgetsPagesToo(SWARingPool):
    needs_paged_swa_allocator = True


@mutant("request-ring.places", serves=SWARingPoolRequest, build=ringed)
class WritesRingsAtFullLocations(SWARingPool):
    def _locations(self, place: Any, loc_info: Any) -> Tensor:
        loc: Tensor = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        return loc if place.role == FULL else loc % self.swa_kv_pool.size


@mutant("request-ring.clear", serves=SWARingPoolRequest, build=ringed)
class ClearsTheFirstWindowLayer(SWARingPool):
    def clear_request_scoped_state(self, req_pool_idx: int, /) -> None:
        leaf = self.swa_kv_pool
        last = self._sides[1].layer_ids[-1:]
        held = [leaf.get_kv_buffer(self._place(layer_id).layer_id) for layer_id in last]
        kept = [[buffer.clone() for buffer in buffers] for buffers in held]
        super().clear_request_scoped_state(req_pool_idx)
        for buffers, before in zip(held, kept, strict=True):
            for buffer, rows in zip(buffers, before, strict=True):
                buffer.copy_(rows)


@mutant("request-ring.clear", serves=SWARingPoolRequest, build=ringed)
class KeepsTheMarkOfTheRow(SWARingPool):
    def clear_request_scoped_state(self, req_pool_idx: int, /) -> None:
        marks = self.swa_valid_from
        assert marks is not None
        before = marks.clone()
        super().clear_request_scoped_state(req_pool_idx)
        marks.copy_(before)


@mutant("request-ring.transfer", serves=SWARingPoolRequest, build=ringed)
class SendsPagesForRings(SWARingPool):
    def get_request_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        ptrs, lens, item_lens = super().get_request_state_buf_infos()
        return ptrs, lens, [item * self.page_size // self._ring for item in item_lens]


@mutant("request-ring.loopback", serves=SWARingPoolRequest, build=over_window_leaf)
class DeclaresKeysOfRingsOnly(MHALeaf):
    """Values are exported by the row, and stay behind where regions are sent."""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return super().buffer_regions()[:1]


@mutant("ring-alloc.rows", serves=SWARingAllocatorRequest, build=beside_rings)
class CountsRingsByTheToken(SWARingAllocator):
    def swa_available_size(self) -> int:
        return min(super().swa_available_size(), self.full_available_size())


@mutant("ring-alloc.no-peers", serves=SWARingAllocatorRequest, build=beside_rings)
class FreesFullSlotsForTheWindow(SWARingAllocator):
    def free_swa(self, free_index: Tensor, /) -> None:
        self.free(free_index)


@mutant("ring-alloc.no-peers", serves=SWARingAllocatorRequest, build=beside_rings)
class TranslatesToTheFullSlot(SWARingAllocator):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return kv_indices.clamp(min=-1).to(torch.int64)


@mutant("ring-alloc.sync-free", serves=SWARingAllocatorRequest, build=beside_rings)
class LooksForNegativeLocations(SWARingAllocator):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        found = torch.zeros_like(kv_indices, dtype=torch.int64)
        found[kv_indices < 0] = -1
        return found
