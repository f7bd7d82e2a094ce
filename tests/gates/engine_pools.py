"""The classes of `engine`, for running code before and after its gates are rewritten."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any

from typing_extensions import get_protocol_members

from kvproto.protocols import MHARows, PoolTraits, SWAComposite

__all__ = ["OBJECTS", "importable"]


def _members_of(protocol: type) -> dict[str, Any]:
    """Something for each member: functions of the same signature, ones for data."""
    functions = {
        name: FunctionType(member.__code__, {}, name, member.__defaults__)
        for name in get_protocol_members(protocol)
        if isinstance(member := inspect.getattr_static(protocol, name), FunctionType)
    }
    for name, function in functions.items():
        function.__kwdefaults__ = inspect.getattr_static(protocol, name).__kwdefaults__
    return dict.fromkeys(get_protocol_members(protocol), 1) | functions


Pair = type("Pair", (), _members_of(SWAComposite))
Rows = type("Rows", (), _members_of(MHARows))


class Heads(Rows):  # type: ignore[valid-type, misc]
    """Plain rows of heads."""

    pool_traits = PoolTraits(kind="mha", layout="nhd")


class PagedHeads(Heads):
    """The same, page by page: not the very class."""

    pool_traits = PoolTraits(kind="mha", layout="paged_nhd")


class Latent:
    """Latent rows."""

    pool_traits = PoolTraits(kind="mla", layout="latent_rows")


class Spec:
    """Plain data."""


class Mine:
    """No profile knows it."""


POOLS = [Pair(), Heads(), PagedHeads(), Latent(), Spec(), Mine()]
OBJECTS: list[object] = [*POOLS, None, 3, object()]


@contextmanager
def importable() -> Generator[None]:
    """Within it `from engine.pools import Pair` works."""
    module = ModuleType("engine.pools")
    for cls in (Pair, Heads, Latent, Spec, Mine):
        setattr(module, cls.__name__, cls)
    package = ModuleType("engine")
    package.pools = module  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    sys.modules |= {"engine": package, "engine.pools": module}
    try:
        yield
    finally:
        del sys.modules["engine"], sys.modules["engine.pools"]
