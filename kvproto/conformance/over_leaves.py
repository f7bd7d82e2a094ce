"""Our composites over a vendor's leaves: what one leaf class is worth to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvproto.protocols import (
    CapabilityError,
    Composite,
    Declined,
    HybridComposite,
    HybridPoolRequest,
    SWAComposite,
    SWAPoolRequest,
)
from kvproto.reference import build_reference_pool
from kvproto.reference.sides import LeavesMisfit

from .factory import Factory
from .law import Law
from .report import LawResult

__all__ = [
    "COMPOSITES",
    "binds_over_leaves",
    "broken_by_leaves",
    "leaf_name",
    "over_leaves",
    "relies_on",
]

COMPOSITES = (SWAPoolRequest, HybridPoolRequest)
"""What the kit builds itself where a factory declines it."""


_OF_COMPOSITES = frozenset((Composite, SWAComposite, HybridComposite))


def binds_over_leaves(law: Law) -> bool:
    """Is the law about composites? The others hold for the leaves by themselves."""
    return not _OF_COMPOSITES.isdisjoint(law.capabilities)


_EVERY_ROW = ("leaf.layers-owned", "leaf.write-read", "leaf.read-doors", "leaf.geometry")
_AT_ZERO = ("leaf.slot-zero", "leaf.negative-loc")
_ALSO = {
    "swa.padding": _AT_ZERO,
    "swa.write-window": _AT_ZERO,
    "swa.move": ("move.slot-zero",),
    "swa.bare-loc": _AT_ZERO,
    "host-tier.spaces": ("transfer.regions", "host-tier.layouts"),
}


def relies_on(law: Law) -> tuple[str, ...]:
    """The laws, and families of laws, that its leaves must keep for a composite to keep this one.

    Window layers have no peer for some tokens, and send their rows to slot 0.
    """
    return (*_EVERY_ROW, law.id.split(".", 1)[1], *_ALSO.get(law.id, ()))


def broken_by_leaves(results: Iterable[LawResult]) -> dict[str, str]:
    """The laws that failed so far, and of each family the first that did."""
    broken: dict[str, str] = {}
    for result in results:
        if result.status == "failed":
            broken.setdefault(result.rule.family, result.law)
            broken[result.law] = result.law
    return broken


def over_leaves(factory: Factory) -> Factory:
    """A factory of window pairs and hybrids whose leaves are `factory`'s.

    It declines where the factory declines a leaf, or serves what no composite can be built over:
    what is no leaf, or leaves that do not fit together (`LeavesMisfit`).
    """

    def build(request: Any) -> Any:
        if not isinstance(request, COMPOSITES):
            return Declined(f"{type(request).__name__} is no request for a composite")
        try:
            return build_reference_pool(request, build_leaf=factory)
        except (CapabilityError, LeavesMisfit) as error:
            return Declined(f"no composite over these leaves: {error}")

    return build


def leaf_name(composite: object) -> str:
    """The class of the leaf that owns rows, the full one where both do."""
    leaf: object = None
    if isinstance(composite, SWAComposite):
        sides = (composite.full_kv_pool, composite.swa_kv_pool)
        leaf = next((side for side in sides if side.layer_num), sides[0])
    elif isinstance(composite, HybridComposite):
        leaf = composite.full_kv_pool
    return type(leaf).__qualname__
