"""How a faulty composite is made of one of the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from kvproto.protocols import (
    Declined,
    HybridPoolRequest,
    SWAPoolRequest,
)
from kvproto.reference import (
    HybridLinearPool,
    SWAPool,
    build_reference_leaf,
    build_reference_pool,
)
from kvproto.reference.build_composite import BuildLeaf
from kvproto.reference.composite_pool import CompositePool

from .registry import MUTANTS, Mutant

T = TypeVar("T", bound=type[CompositePool])


def composite(
    law: str,
    *,
    source: str = "",
    asks: Callable[[Any], Any] = lambda request: request,
    build_leaf: BuildLeaf = build_reference_leaf,
) -> Callable[[T], T]:
    """Register a class of faulty members, put before those of the reference's composites.

    Of the pairs or the hybrids alone where it derives from them. `asks` changes the request before
    the reference is asked, the leaves are `build_leaf`'s; a `spoil` method is called once the pool
    is there.
    """

    def register(cls: T) -> T:
        fault: type = cls
        kinds: dict[type, type] = {SWAPoolRequest: SWAPool, HybridPoolRequest: HybridLinearPool}
        of_one = [request for request, pool in kinds.items() if issubclass(fault, pool)]
        served = tuple(of_one or kinds)

        def build(request: Any) -> Any:
            if not isinstance(request, served):
                return Declined(f"{fault.__name__} is another composite")
            made = build_reference_pool(asks(request), build_leaf)
            return made if isinstance(made, Declined) else _spoilt(made, fault)

        MUTANTS.append(Mutant(fault.__name__, law, source, build))
        return cls

    return register


def _spoilt(pool: Any, fault: type) -> Any:
    own: type = pool.__class__
    pool.__class__ = type(fault.__name__, (fault, own), {})
    if hasattr(pool, "spoil"):
        pool.spoil()
    return pool
