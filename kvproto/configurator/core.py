"""What the configurator asks of the core: everything that is built over a platform's parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    KVLeaf,
    KVPool,
    LeafRequest,
    NoOpLeafRequest,
    PoolRequest,
    RequestPool,
    SlotAllocator,
    StatePool,
    StatePoolRequest,
    SWARingPoolRequest,
)

if TYPE_CHECKING:
    from .built import RowlessPool
    from .pool_plan import PlannedAllocator, PlannedTable

__all__ = ["BuildAllocator", "BuildLeaf", "Core"]

BuildLeaf: TypeAlias = Callable[[LeafRequest], KVLeaf | Declined]
"""A platform's door for leaves."""

BuildAllocator: TypeAlias = Callable[[AllocatorRequest], SlotAllocator | Declined]
"""A platform's door for allocators of one space of slots."""


class Core(Protocol):
    """Builds what no platform is asked for: composites, state, tables, and allocators of pairs.

    Handed to `build`, so that the configurator knows contracts alone. `kvproto.reference.CORE`
    is one.
    """

    def pool(
        self, request: PoolRequest | SWARingPoolRequest, build_leaf: BuildLeaf, /
    ) -> KVPool | Declined:
        """The leaf, or the composite over leaves, that the request describes."""
        ...

    def rowless(self, request: NoOpLeafRequest, /) -> RowlessPool:
        """What backends read where no rows are kept: no platform is asked to keep nothing."""
        ...

    def state(self, request: StatePoolRequest, /) -> StatePool:
        """A recurrent state pool of its own, for a model whose rows are in a window pair."""
        ...

    def allocator(
        self,
        request: PlannedAllocator,
        kvcache: object,
        request_pool: RequestPool,
        build_allocator: BuildAllocator,
        /,
    ) -> SlotAllocator | Declined:
        """The allocator; each space of slots in it comes from `build_allocator`.

        Slots of requests, rings, are those of the rows of `request_pool`.
        """
        ...

    def request_pool(self, request: PlannedTable, state: StatePool | None, /) -> RequestPool:
        """The table of token slots per request; its rows have slots of `state`, if there is one."""
        ...

    def spare_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        """A leaf for platforms that decline a request whose `fallback` is the core."""
        ...

    def spare_allocator(self, request: AllocatorRequest, kvcache: object, /) -> Any:
        """An allocator for platforms that have none of their own."""
        ...
