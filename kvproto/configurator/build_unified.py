"""The parts of one byte buffer, all of them by the platform."""

from __future__ import annotations

from kvproto.protocols import (
    CapabilityError,
    Declined,
    KVPool,
    Platform,
    RequestPool,
    SlotAllocator,
    StatePool,
    SubsystemPlatform,
    SubsystemPools,
    SWACapable,
    SWAPoolRequest,
    UnifiedBufferRequest,
    require,
)

from .build_error import BuildError
from .built import BuiltPools, views_of
from .pool_plan import PoolPlan
from .realise import realised

__all__ = ["build_unified"]


def build_unified(plan: PoolPlan, request: UnifiedBufferRequest, platform: Platform) -> BuiltPools:
    """What the platform makes of the request, looked at part by part.

    :raises BuildError: for a platform without a builder, one that declines, and a part that is
        missing or cannot do what it is for.
    """
    made = _asked(request, platform)
    where = f"unified_buffer of platform '{platform.name}'"
    state = request.state if isinstance(request.pool, SWAPoolRequest) else request.pool.state
    for name, wanted, given in (("state", state, made.state), ("draft", request.draft, made.draft)):
        if (wanted is None) is not (given is None):
            has = "none" if given is None else f"a {type(given).__name__}"
            raise BuildError(f"{where}: {name} is {has}, asked was {type(wanted).__name__}")
    try:
        _look_at(made, request, where)
    except CapabilityError as error:
        raise BuildError(str(error)) from error
    return BuiltPools(
        plan=plan,
        pool=made.pool,
        rowless=None,
        views=views_of(made.pool),
        state=made.state,
        draft=made.draft,
        draft_views=None if made.draft is None else views_of(made.draft),
        allocator=made.allocator,
        request_pool=made.request_pool,
        notes=(),
    )


def _asked(request: UnifiedBufferRequest, platform: Platform) -> SubsystemPools:
    lacking = sorted(request.subsystems - platform.capabilities.subsystems)
    if lacking:
        raise BuildError(f"platform '{platform.name}' offers no {', '.join(lacking)}")
    try:
        builder = require(platform, SubsystemPlatform, for_="its unified_buffer")
    except CapabilityError as error:
        raise BuildError(f"platform '{platform.name}': {error}") from error
    made = builder.build_subsystem(realised(request, platform.capabilities.device_type))
    if isinstance(made, Declined):
        raise BuildError(f"platform '{platform.name}' declined unified_buffer: {made.reason}")
    return made


def _look_at(made: SubsystemPools, request: UnifiedBufferRequest, where: str) -> None:
    pool = require(made.pool, KVPool, for_=where)
    if isinstance(request.pool, SWAPoolRequest):
        require(pool, SWACapable, for_=where)
    if made.draft is not None:
        require(made.draft, KVPool, for_=f"the draft in {where}")
    if made.state is not None:
        require(made.state, StatePool, for_=where)
    require(made.allocator, SlotAllocator, for_=where)
    require(made.request_pool, RequestPool, for_=where)
    page = request.pool.full.page_size
    if pool.page_size != page:
        raise BuildError(f"{where}: page_size is {pool.page_size}, asked was {page}")
