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
from .build_rows import rows_with_state
from .hisparse import DeviceLocations
from .state import RecurrentStatePool

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
            return rows_with_state(request, RecurrentStatePool(**request.state.keywords()))
        case _:
            return build_reference_pool(request)
