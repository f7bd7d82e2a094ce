"""A vendor's factory: found by name, called with one request, held to its word."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from kvproto._bad_input import BadInput
from kvproto.protocols import Declined, KVPool, LeafRequest
from kvproto.protocols._members import members_of

__all__ = ["Factory", "build", "load_factory"]

Factory: TypeAlias = Callable[[LeafRequest], Any]
"""Takes one request and returns a pool that serves it, or `Declined(reason)`."""


def load_factory(target: str) -> Factory:
    """The callable that `module:attribute` names; the current directory is importable.

    :raises BadInput: when there is no such thing.
    """
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise BadInput(f"'{target}': write module:factory, for example acme.pools:build")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise BadInput(
            f"{target}: importing {module_name} failed with {_told(error)}; "
            "run from the folder that holds it, or install it"
        ) from error
    factory = vars(module).get(attribute)
    if not callable(factory):
        wrong = "is not callable" if attribute in vars(module) else "does not exist"
        raise BadInput(f"{target}: {attribute} {wrong} in {module_name}")
    return cast("Factory", factory)


def build(factory: Factory, request: LeafRequest) -> KVPool | Declined:
    """Ask the factory for one pool.

    :raises BadInput: when it raises, or returns what is neither a pool nor Declined, or a
        pool whose buffers the kit cannot read.
    """
    asked = f"{type(request).__name__}({request.dtype}, page_size={request.page_size})"
    try:
        pool: object = factory(request)
    except Exception as error:
        raise BadInput(
            f"the factory raised {_told(error)} for {asked}; "
            "return kvproto.protocols.Declined(reason) for what the pool does not serve"
        ) from error
    if isinstance(pool, Declined):
        return pool
    doors = [m.name for m in members_of(KVPool) if m.kind == "method"]
    if isinstance(pool, type) or not any(hasattr(type(pool), door) for door in doors):
        what = f"the class {pool.__name__}" if isinstance(pool, type) else type(pool).__name__
        raise BadInput(
            f"the factory returned {what} for {asked}, which has none of a pool's doors "
            f"({', '.join(doors)}); return a pool, or kvproto.protocols.Declined(reason)"
        )
    return cast("KVPool", pool)


def _told(error: BaseException) -> str:
    text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
