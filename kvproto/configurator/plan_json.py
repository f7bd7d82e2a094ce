"""Plans as JSON and back, without loss."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, TypeGuard, cast, get_args

from kvproto.protocols import (
    AllocatorRequest,
    CompressedPoolRequest,
    DSALeafRequest,
    ElementType,
    HiSparseAllocatorRequest,
    HybridPoolRequest,
    MHALeafRequest,
    MLALeafRequest,
    NoOpLeafRequest,
    PageShards,
    PureSWAAllocatorRequest,
    QSAPoolRequest,
    RequestPoolRequest,
    ShardedAllocatorRequest,
    SparseIndexLeafRequest,
    StatePoolRequest,
    StateRequestPoolRequest,
    SWAAllocatorRequest,
    SWAPoolRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
    UnifiedBufferRequest,
)

from .concurrency import Concurrency
from .elements import PlannedDtype
from .fields import is_object
from .ledger import Share
from .plan_error import PlanError
from .pool_plan import PoolPlan
from .token_budget import Tokens

__all__ = ["plan_from_json", "plan_to_json"]

_VERSION = 1
_KINDS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        AllocatorRequest,
        CompressedPoolRequest,
        Concurrency,
        DSALeafRequest,
        HiSparseAllocatorRequest,
        HybridPoolRequest,
        MHALeafRequest,
        MLALeafRequest,
        NoOpLeafRequest,
        PageShards,
        PoolPlan,
        PureSWAAllocatorRequest,
        QSAPoolRequest,
        RequestPoolRequest,
        SWAAllocatorRequest,
        SWAPoolRequest,
        SWARingAllocatorRequest,
        SWARingPoolRequest,
        Share,
        ShardedAllocatorRequest,
        SparseIndexLeafRequest,
        StatePoolRequest,
        StateRequestPoolRequest,
        Tokens,
        UnifiedBufferRequest,
    )
}
_DTYPE = "dtype"


def plan_to_json(plan: PoolPlan) -> str:
    """One JSON object: `version`, and `plan` with the type of every part under `is`."""
    return json.dumps({"version": _VERSION, "plan": _encoded(plan)}, indent=1)


def plan_from_json(text: str) -> PoolPlan:
    """The plan that `plan_to_json` wrote.

    :raises PlanError: for what it did not write, or another version wrote.
    """
    try:
        found: Any = json.loads(text)
        if found["version"] != _VERSION:
            raise PlanError("version", found["version"], f"plans here have {_VERSION}", "plan anew")
        plan: Any = _decoded(found["plan"])
    except PlanError:
        raise
    except (KeyError, TypeError, ValueError) as error:  # ValueError: what a request refuses
        raise PlanError("plan", text[:40], f"is no stored plan ({error})", "plan anew") from error
    if not isinstance(plan, PoolPlan):
        raise PlanError("plan", type(plan).__name__, "is a part of one", "plan anew")
    return plan


def _encoded(value: object) -> object:
    if isinstance(value, PlannedDtype):
        return {"is": _DTYPE, "name": value.name}
    if is_dataclass(value):
        named = {field.name: _encoded(getattr(value, field.name)) for field in fields(value)}
        return {"is": type(value).__name__} | named
    if isinstance(value, tuple):
        return [_encoded(item) for item in cast("tuple[object, ...]", value)]
    return value


def _decoded(value: Any) -> Any:
    if _is_list(value):
        return tuple(_decoded(item) for item in value)
    if not is_object(value):
        return value
    kind = value["is"]
    if kind == _DTYPE:
        return _dtype(value["name"])
    return _KINDS[kind](**{name: _decoded(part) for name, part in value.items() if name != "is"})


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _dtype(name: Any) -> PlannedDtype:
    if name not in get_args(ElementType):
        raise KeyError(f"no element type '{name}'")
    return PlannedDtype(name)
