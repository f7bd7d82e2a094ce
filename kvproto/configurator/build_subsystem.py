"""What a platform builds as a whole, looked at part by part."""

from __future__ import annotations

from kvproto.protocols import (
    CapabilityError,
    CompressedPoolRequest,
    Declined,
    DSV4Compressed,
    HybridPoolRequest,
    KVPool,
    Platform,
    QSAIndexed,
    QSAPoolRequest,
    RequestPool,
    SlotAllocator,
    StatePool,
    SubsystemPlatform,
    SubsystemPools,
    SubsystemRequest,
    SWACapable,
    SWAPoolRequest,
    UnifiedBufferRequest,
    require,
)

from .build_error import BuildError
from .built import BuiltPools, views_of
from .pool_plan import PoolPlan
from .realise import realised

__all__ = ["build_subsystem"]

_NAMES: dict[type, str] = {
    UnifiedBufferRequest: "unified_buffer",
    CompressedPoolRequest: "compressed_pool",
    QSAPoolRequest: "qsa_pool",
}


def build_subsystem(plan: PoolPlan, request: SubsystemRequest, platform: Platform) -> BuiltPools:
    """What the platform makes of the request.

    :raises BuildError: for a platform without a builder, one that declines, and a part that is
        missing or cannot do what it is for.
    """
    name = _NAMES[type(request)]
    made = _asked(request, platform, name)
    where = f"{name} of platform '{platform.name}'"
    state = draft = None
    if isinstance(request, UnifiedBufferRequest):
        beside, draft = request.pool, request.draft
        state = request.state if isinstance(beside, SWAPoolRequest) else beside.state
    elif isinstance(request, QSAPoolRequest) and isinstance(request.pool, HybridPoolRequest):
        state = request.pool.state
    for part, wanted, given in (("state", state, made.state), ("draft", draft, made.draft)):
        if (wanted is None) is not (given is None):
            has = "none" if given is None else f"a {type(given).__name__}"
            raise BuildError(f"{where}: {part} is {has}, asked was {type(wanted).__name__}")
    try:
        pool = _pool(made, request, where)
        _look_at_the_rest(made, where)
    except CapabilityError as error:
        raise BuildError(str(error)) from error
    return BuiltPools(
        plan=plan,
        pool=pool,
        rowless=None,
        compressed=None if pool is not None else require(made.pool, DSV4Compressed, for_=where),
        views=views_of(made.pool),
        state=made.state,
        draft=made.draft,
        draft_views=None if made.draft is None else views_of(made.draft),
        allocator=made.allocator,
        request_pool=made.request_pool,
        notes=(),
    )


def _asked(request: SubsystemRequest, platform: Platform, name: str) -> SubsystemPools:
    lacking = sorted(request.subsystems - platform.capabilities.subsystems)
    if lacking:
        raise BuildError(f"platform '{platform.name}' offers no {', '.join(lacking)}")
    try:
        builder = require(platform, SubsystemPlatform, for_=f"its {name}")
    except CapabilityError as error:
        raise BuildError(f"platform '{platform.name}': {error}") from error
    made = builder.build_subsystem(realised(request, platform.capabilities.device_type))
    if isinstance(made, Declined):
        raise BuildError(f"platform '{platform.name}' declined {name}: {made.reason}")
    return made


def _pool(made: SubsystemPools, request: SubsystemRequest, where: str) -> KVPool | None:
    """The pool of layers; None for one of compressed rows, which has doors of its own."""
    if isinstance(request, CompressedPoolRequest):
        found = require(made.pool, DSV4Compressed, for_=where)
        first, ratios = request.start_layer, request.compression_ratios
        given = tuple(found.compression_ratios[first : first + len(ratios)])
        if given != ratios:
            raise BuildError(f"{where}: compression_ratios are {given}, asked was {ratios}")
        return None
    pool = require(made.pool, KVPool, for_=where)
    if isinstance(request.pool, SWAPoolRequest):
        require(pool, SWACapable, for_=where)
    if isinstance(request, QSAPoolRequest):
        ratio = require(pool, QSAIndexed, for_=where).qsa_compress_ratio
        if ratio != request.qsa_compress_ratio:
            wanted = request.qsa_compress_ratio
            raise BuildError(f"{where}: qsa_compress_ratio is {ratio}, asked was {wanted}")
    if pool.page_size != request.page_size:
        raise BuildError(f"{where}: page_size is {pool.page_size}, asked was {request.page_size}")
    return pool


def _look_at_the_rest(made: SubsystemPools, where: str) -> None:
    if made.draft is not None:
        require(made.draft, KVPool, for_=f"the draft in {where}")
    if made.state is not None:
        require(made.state, StatePool, for_=where)
    require(made.allocator, SlotAllocator, for_=where)
    require(made.request_pool, RequestPool, for_=where)
