"""A vendor's factory: found by name, called with one request, held to its word."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from kvproto._bad_input import BadInput
from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    HiSparseAllocator,
    HiSparseAllocatorRequest,
    KeyOnly,
    KeyOnlyLeafRequest,
    KVPool,
    MHARows,
    NoOpLeafRequest,
    PureSWAAllocatorRequest,
    RequestPool,
    RequestPoolRequest,
    ShardedAllocator,
    ShardedAllocatorRequest,
    SlotAllocator,
    StatePool,
    StatePoolRequest,
    StateRequestPool,
    StateRequestPoolRequest,
    StateSlotAllocator,
    StateSlotsRequest,
    SWAAllocator,
    SWAAllocatorRequest,
    SWARingAllocatorRequest,
    VirtualIdAllocator,
    VirtualIdsRequest,
)

from .asked_members import methods
from .row_access import RowAccess
from .specs.models import ModelRequest

__all__ = ["Factory", "build", "load_factory", "load_row_access", "named"]

Factory: TypeAlias = Callable[[Any], Any]
"""Takes one request and returns what serves it, or `Declined(reason)`."""

_ASKED_FOR: dict[type, tuple[str, type]] = {
    AllocatorRequest: ("an allocator", SlotAllocator),
    SWAAllocatorRequest: ("a window pair's allocator", SWAAllocator),
    PureSWAAllocatorRequest: ("an allocator of window slots", SWAAllocator),
    HiSparseAllocatorRequest: ("an allocator of ids and device slots", HiSparseAllocator),
    StateSlotsRequest: ("an allocator of state slots", StateSlotAllocator),
    RequestPoolRequest: ("a request pool", RequestPool),
    SWARingAllocatorRequest: ("an allocator beside rings", SWAAllocator),
    ShardedAllocatorRequest: ("an allocator of pages of ranks", ShardedAllocator),
    VirtualIdsRequest: ("an allocator of virtual ids", VirtualIdAllocator),
    StateRequestPoolRequest: ("a request pool with state", StateRequestPool),
    StatePoolRequest: ("a state pool", StatePool),
    KeyOnlyLeafRequest: ("a pool of keys", KeyOnly),
    NoOpLeafRequest: ("a pool that keeps nothing", MHARows),
}
"""What a request is for, and the protocol whose methods are its doors; all others are for pools."""


def load_factory(target: str) -> Factory:
    """The callable that `module:attribute` names; the current directory is importable.

    :raises BadInput: when there is no such thing.
    """
    factory = named(target, "module:factory, for example acme.pools:build")
    if not callable(factory):
        module, _, attribute = target.partition(":")
        raise BadInput(f"{target}: {attribute} is not callable in {module}")
    return cast("Factory", factory)


def load_row_access(target: str | None) -> RowAccess | None:
    """The `RowAccess` that `module:attribute` names, made without arguments if it is a class.

    :raises BadInput: when there is no such thing, or it cannot peek and poke.
    """
    if target is None:
        return None
    found: Any = named(target, "module:Class with peek and poke")
    lacks = [name for name in ("peek", "poke") if not callable(getattr(found, name, None))]
    if lacks:
        raise BadInput(f"{target}: it has no {' and no '.join(lacks)}, see kvproto's RowAccess")
    return cast("RowAccess", found() if isinstance(found, type) else found)


def named(target: str, form: str) -> object:
    """What `module:attribute` names; `form` says what was to be written.

    :raises BadInput: when there is no such thing.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise BadInput(f"'{target}': write {form}")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise BadInput(
            f"{target}: importing {module_name} failed with {_told(error)}; "
            "run from the folder that holds it, or install it"
        ) from error
    if attribute not in vars(module):
        raise BadInput(f"{target}: {attribute} does not exist in {module_name}")
    return cast("object", vars(module)[attribute])


def build(factory: Factory, request: object) -> Any:
    """Ask the factory for one subject, or `Declined`.

    :raises BadInput: when it raises, or returns what is neither Declined nor anything like what
        was asked for.
    """
    asked = _shown(request)
    what_for, protocol = _ASKED_FOR.get(type(request), ("a pool", KVPool))
    try:
        pool: object = factory(request)
    except Exception as error:
        raise BadInput(
            f"the factory raised {_told(error)} for {asked}; "
            "return kvproto.protocols.Declined(reason) for what the pool does not serve"
        ) from error
    if isinstance(pool, Declined) or isinstance(request, ModelRequest):
        return pool  # models are deployed by the kit itself, see `Deployer`
    if pool is None:
        raise BadInput(
            f"the factory returned None for {asked}; return {what_for}, or "
            "kvproto.protocols.Declined(reason)"
        )
    doors = methods(protocol)
    if isinstance(pool, type) or not any(hasattr(type(pool), door) for door in doors):
        what = f"the class {pool.__name__}" if isinstance(pool, type) else type(pool).__name__
        raise BadInput(
            f"the factory returned {what} for {asked}, which has none of {what_for}'s doors "
            f"({', '.join(doors)}); return {what_for}, or kvproto.protocols.Declined(reason)"
        )
    return pool


def _shown(request: object) -> str:
    known = [name for name in ("layout", "dtype", "size", "page_size") if hasattr(request, name)]
    return f"{type(request).__name__}({', '.join(f'{n}={getattr(request, n)}' for n in known)})"


def _told(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
