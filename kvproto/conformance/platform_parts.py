"""What a platform is asked for by itself: leaves, allocators, and composites over its leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    DSALeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    Platform,
    SparseIndexLeafRequest,
)

from .benches import BENCHES
from .block_bench import block_bench
from .deployment_bench import DeploymentBench
from .factory import Factory
from .law import LAWS, Law
from .over_leaves import COMPOSITES, binds_over_leaves
from .specs import SPECS, Spec
from .specs.models import MODEL_SPECS, ModelRequest

__all__ = ["PART_SPECS", "can_bind", "is_of_platforms", "parts_of", "platform_laws"]

_LEAVES: tuple[type, ...] = get_args(LeafRequest)

PART_SPECS: tuple[Spec, ...] = tuple(
    spec for spec in SPECS if isinstance(spec.request, (*_LEAVES, AllocatorRequest, *COMPOSITES))
)
"""The geometries of a platform's parts. State, rows of requests and pairs of accounts are the
core's on every platform, and are judged in the models that have them."""


def parts_of(platform: Platform) -> Factory:
    """A factory of the platform's leaves and allocators; composites are left to the kit."""

    def build(request: Any) -> Any:
        match request:
            case AllocatorRequest():
                return platform.build_allocator(request)
            case MHALeafRequest() | MLALeafRequest() | DSALeafRequest() | SparseIndexLeafRequest():
                return platform.build_leaf(request)
            case _:
                return Declined("composites are the core's")

    return build


def can_bind(law: Law, spec: Spec) -> bool:
    """Is the law about such subjects? Whether it binds what is built, that decides."""
    if isinstance(spec.request, ModelRequest) is not is_of_platforms(law):
        return False
    if isinstance(spec.request, COMPOSITES) and not binds_over_leaves(law):
        return False
    bench = block_bench(spec.request) or BENCHES[type(spec.request)]
    return issubclass(bench, law.bench)


def is_of_platforms(law: Law) -> bool:
    """Is the law about whole models on a platform?"""
    return issubclass(law.bench, DeploymentBench)


def platform_laws(specs: Iterable[Spec] = (*PART_SPECS, *MODEL_SPECS)) -> list[Law]:
    """Every law that can bind what a platform builds for these, in the laws' own order."""
    asked = list(specs)
    return [law for law in LAWS.values() if any(can_bind(law, spec) for spec in asked)]
