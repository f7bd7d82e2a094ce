"""From a plan to pools: leaves by the platform, the rest by the core."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from kvproto.protocols import (
    AllocatorRequest,
    CapabilityError,
    Declined,
    DSALeafRequest,
    HiSparse,
    HybridComposite,
    KVLeaf,
    KVPool,
    LeafRequest,
    MLALeafRequest,
    NoOpLeafRequest,
    PagedAllocator,
    PageSharded,
    Platform,
    SlotAllocator,
    SparseIndexLeafRequest,
    StatePool,
    require,
    supports,
)

from .build_error import BuildError
from .build_subsystem import build_subsystem
from .built import BuiltPools, RowlessPool, views_of
from .core import Core
from .draft_windows import bind_windows
from .honours import differences
from .pool_plan import PlannedPool, PoolPlan
from .realise import realised

__all__ = ["build"]

_Made = TypeVar("_Made")


def build(plan: PoolPlan, platform: Platform, core: Core) -> BuiltPools:
    """The pools of a plan on the platform's device.

    What the platform declines is the core's where the request's `fallback` says so, and a note
    tells; elsewhere it ends the build: rows in another layout than its kernels read serve nobody.

    :raises BuildError: for a part that is declined without a fallback, for a leaf or an allocator
        that is none or holds other than was asked, and for leaves that the core can build nothing
        over.
    """
    if plan.subsystem is not None:
        return build_subsystem(plan, plan.subsystem, platform)
    doors = _Doors(platform, core)
    pool, rowless = _pool(plan.pool, doors), _rowless(plan, doors)
    state = _state(plan, pool, core, platform)
    draft = _pool(plan.draft, doors)
    doors.kvcache = rowless if pool is None else pool
    table = core.request_pool(realised(plan.request_pool, doors.device), state)
    asked = realised(plan.allocator, doors.device)
    allocator = core.allocator(asked, doors.kvcache, table, doors.allocator)
    if draft is not None:
        bind_windows(draft, pool, plan.draft_windows)
    return BuiltPools(
        plan=plan,
        pool=pool,
        rowless=rowless,
        compressed=None,
        views=None if pool is None else views_of(pool),
        state=state,
        draft=draft,
        draft_views=None if draft is None else views_of(draft),
        allocator=_built(allocator, platform),
        request_pool=table,
        notes=tuple(doors.notes),
    )


@dataclass(slots=True)
class _Doors:
    """A platform's doors, each answer looked at before it is passed on."""

    platform: Platform
    core: Core
    kvcache: object = None
    notes: list[str] = field(default_factory=list)

    @property
    def device(self) -> str:
        return self.platform.capabilities.device_type

    def leaf(self, request: LeafRequest) -> KVLeaf | Declined:
        leaf = self.platform.build_leaf(request)
        if isinstance(leaf, Declined):
            return leaf if request.fallback == "none" else self._spare_leaf(request, leaf)
        name = f"{type(request).__name__} on platform '{self.platform.name}'"
        _require_answer(leaf, f"{name}: build_leaf", "a leaf")
        try:
            require(leaf, KVLeaf, for_=name)
            if _rows_of_some(request):
                require(leaf, HiSparse, for_=name)
            if _pages_of_some(request):
                require(leaf, PageSharded, for_=name)
        except CapabilityError as error:
            raise BuildError(str(error)) from error
        other = differences(request, leaf)
        if other:
            raise BuildError(f"{name}: build_leaf gave {type(leaf).__name__}: {'; '.join(other)}")
        return leaf

    def allocator(self, request: AllocatorRequest) -> SlotAllocator | Declined:
        made = self.platform.build_allocator(request)
        if not isinstance(made, Declined):
            return self._lends_what_was_asked(request, made)
        if request.fallback == "none":
            return made
        self._note(f"{request.kind} allocator of {request.size} slots", made)
        spare: SlotAllocator = self.core.spare_allocator(request, self.kvcache)
        return spare

    def _lends_what_was_asked(
        self, request: AllocatorRequest, made: SlotAllocator
    ) -> SlotAllocator:
        name = f"{request.kind} allocator of platform '{self.platform.name}'"
        _require_answer(made, f"{name}: build_allocator", "an allocator")
        try:
            require(made, PagedAllocator if request.kind == "paged" else SlotAllocator, for_=name)
        except CapabilityError as error:
            raise BuildError(str(error)) from error
        for fact in ("size", "page_size"):
            told, asked = getattr(made, fact), getattr(request, fact)
            if told != asked:
                kind = type(made).__name__
                raise BuildError(
                    f"{name}: build_allocator gave {kind}: {fact} is {told}, asked was {asked}"
                )
        return made

    def _spare_leaf(self, request: LeafRequest, declined: Declined) -> KVLeaf | Declined:
        name = f"{type(request).__name__} of {request.layer_num} layers and {request.size} slots"
        self._note(name, declined)
        return self.core.spare_leaf(request)

    def _note(self, what: str, declined: Declined) -> None:
        self.notes.append(
            f"{what} by the core: platform '{self.platform.name}' declined it ({declined.reason})"
        )


def _require_answer(made: object, door: str, what: str) -> None:
    """:raises BuildError: for None, which says nothing of why."""
    if made is None:
        raise BuildError(f"{door} gave None: return {what}, or Declined(reason)")


def _rows_of_some(request: LeafRequest) -> bool:
    """Whether the leaf has to find the device slots of ids."""
    match request:
        case DSALeafRequest() | SparseIndexLeafRequest():
            return request.host_to_device_ratio > 1
        case _:
            return False


def _pages_of_some(request: LeafRequest) -> bool:
    """Whether the leaf has the pages of one rank, and gathers the others."""
    match request:
        case MLALeafRequest() | DSALeafRequest():
            return request.page_shards is not None
        case _:
            return False


def _pool(request: PlannedPool | None, doors: _Doors) -> KVPool | None:
    if request is None or isinstance(request, NoOpLeafRequest):
        return None
    asked = realised(request, doors.device)
    try:
        return _built(doors.core.pool(asked, doors.leaf), doors.platform)
    except (ValueError, CapabilityError) as error:
        name = f"{type(asked).__name__} over leaves of platform '{doors.platform.name}'"
        raise BuildError(f"no {name}: {error}") from error


def _rowless(plan: PoolPlan, doors: _Doors) -> RowlessPool | None:
    if not isinstance(plan.pool, NoOpLeafRequest):
        return None
    return doors.core.rowless(realised(plan.pool, doors.device))


def _state(plan: PoolPlan, pool: KVPool | None, core: Core, platform: Platform) -> StatePool | None:
    if plan.state is None:
        return None
    if pool is not None and supports(pool, HybridComposite):
        return pool.mamba_pool
    return core.state(realised(plan.state, platform.capabilities.device_type))


def _built(made: _Made | Declined, platform: Platform) -> _Made:
    if isinstance(made, Declined):
        raise BuildError(f"platform '{platform.name}' declined: {made.reason}")
    return made
