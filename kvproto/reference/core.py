"""The reference as the core of a configurator: what is built over a platform's parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    HiSparseAllocatorRequest,
    KVLeaf,
    KVPool,
    LeafRequest,
    NoOpLeafRequest,
    PoolRequest,
    RequestPool,
    RequestPoolRequest,
    ShardedAllocatorRequest,
    StatePool,
    StatePoolRequest,
    StateRequestPoolRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
)

from .build import build_reference_leaf
from .build_allocator import BuildAllocator, build_reference_allocator
from .build_composite import BuildLeaf, build_reference_pool
from .build_ring import build_ring_allocator, build_ring_pool
from .build_rows import rows_with_state
from .noop import NoOpLeaf
from .request_pool import ReqToToken
from .state import RecurrentStatePool

if TYPE_CHECKING:
    from kvproto.protocols import PureSWAAllocatorRequest, SWAAllocatorRequest

__all__ = ["CORE", "ReferenceCore"]


class ReferenceCore:
    """Composites, state, tables and pairs of allocators, over leaves and allocators of others."""

    def pool(
        self, request: PoolRequest | SWARingPoolRequest, build_leaf: BuildLeaf, /
    ) -> KVPool | Declined:
        """As `build_reference_pool`, and as `build_ring_pool` where requests have rings."""
        if isinstance(request, SWARingPoolRequest):
            return build_ring_pool(request, build_leaf)
        return build_reference_pool(request, build_leaf)

    def rowless(self, request: NoOpLeafRequest, /) -> NoOpLeaf:
        """A page of zeros on the request's device."""
        return NoOpLeaf(**request.keywords())

    def state(self, request: StatePoolRequest, /) -> RecurrentStatePool:
        """A state pool on the request's device."""
        return RecurrentStatePool(**request.keywords())

    def allocator(
        self,
        request: AllocatorRequest
        | SWAAllocatorRequest
        | PureSWAAllocatorRequest
        | SWARingAllocatorRequest
        | HiSparseAllocatorRequest
        | ShardedAllocatorRequest,
        kvcache: object,
        request_pool: RequestPool,
        build_allocator: BuildAllocator,
        /,
    ) -> Any:
        """The platform's allocator, or what lies over one or two of them."""
        match request:
            case AllocatorRequest():
                return build_allocator(request)
            case SWARingAllocatorRequest():
                return build_ring_allocator(request, request_pool, kvcache, build_allocator)
            case _:
                return build_reference_allocator(request, kvcache, build_allocator)

    def request_pool(
        self, request: RequestPoolRequest | StateRequestPoolRequest, state: StatePool | None, /
    ) -> ReqToToken:
        """A table on the request's device, with slots of the given state where it asks for some."""
        if isinstance(request, StateRequestPoolRequest):
            if state is None:
                raise ValueError("a table of rows with state needs the state pool they are of")
            return rows_with_state(request, state)
        return ReqToToken(
            request.size,
            request.max_context_len,
            request.device,
            enable_memory_saver=request.enable_memory_saver,
            pre_alloc_size=request.pre_alloc_size,
        )

    def spare_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        """A leaf in plain torch."""
        return build_reference_leaf(request)

    def spare_allocator(self, request: AllocatorRequest, kvcache: object, /) -> Any:
        """An allocator in plain torch, for whatever device has torch."""
        return build_reference_allocator(request, kvcache)


CORE = ReferenceCore()
"""The only one there needs to be: it keeps nothing."""
