"""One factory for everything the reference has: what the conformance kit is pointed at."""

from __future__ import annotations

from typing import Any

from kvproto.protocols import (
    AllocatorRequest,
    HiSparseAllocatorRequest,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    ShardedAllocatorRequest,
    StatePoolRequest,
    StateRequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
    VirtualIdsRequest,
)

from .build_allocator import build_reference_allocator
from .build_composite import build_reference_pool
from .build_ring import build_ring_allocator, build_ring_pool
from .hisparse import DeviceLocations
from .state import RecurrentStatePool
from .state_request_pool import StateReqToToken
from .state_slot_allocator import StateSlots

__all__ = ["build_reference"]


def build_reference(request: Any, /) -> Any:
    """The reference object for any request of `kvproto.protocols`, or `Declined`."""
    match request:
        case HiSparseAllocatorRequest():
            return build_reference_allocator(request, DeviceLocations())
        case (
            AllocatorRequest()
            | SWAAllocatorRequest()
            | PureSWAAllocatorRequest()
            | ShardedAllocatorRequest()
            | VirtualIdsRequest()
            | StateSlotsRequest()
            | RequestPoolRequest()
        ):
            return build_reference_allocator(request)
        case StatePoolRequest():
            return RecurrentStatePool(**request.keywords())
        case SWARingPoolRequest():
            return build_ring_pool(request)
        case SWARingAllocatorRequest():
            return build_ring_allocator(request)
        case StateRequestPoolRequest():
            return _rows_with_state(request)
        case _:
            return build_reference_pool(request)


def _rows_with_state(request: StateRequestPoolRequest) -> StateReqToToken:
    rows, initial = request.rows, request.mamba_initial_tracking_slots
    positions = request.mamba_ping_pong_track_buffer_size
    return StateReqToToken(
        size=rows.size,
        max_context_len=rows.max_context_len,
        device=rows.device,
        enable_memory_saver=rows.enable_memory_saver,
        mamba_pool=RecurrentStatePool(**request.state.keywords()),
        mamba_allocator=StateSlots(request.state.size, rows.device),
        enable_mamba_extra_buffer=initial > 0,
        enable_mamba_extra_buffer_lazy=0 < initial < positions,
        enable_overlap_schedule=positions == 2,
        start_layer=request.start_layer,
        pre_alloc_size=rows.pre_alloc_size,
    )
