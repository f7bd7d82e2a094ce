"""One factory for everything the reference has: what the conformance kit is pointed at."""

from __future__ import annotations

from typing import Any

from kvproto.protocols import (
    AllocatorRequest,
    RequestPoolRequest,
    StatePoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
)

from .build_allocator import build_reference_allocator
from .build_composite import build_reference_pool
from .state import RecurrentStatePool

__all__ = ["build_reference"]


def build_reference(request: Any, /) -> Any:
    """The reference object for any request of `kvproto.protocols`, or `Declined`."""
    match request:
        case (
            AllocatorRequest() | SWAAllocatorRequest() | StateSlotsRequest() | RequestPoolRequest()
        ):
            return build_reference_allocator(request)
        case StatePoolRequest():
            return RecurrentStatePool(**request.keywords())
        case _:
            return build_reference_pool(request)
