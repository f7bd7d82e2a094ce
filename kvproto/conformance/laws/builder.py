"""What is built of a plan on a platform, and by whom: the platform's parts at every level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from typing_extensions import TypeForm

from kvproto.configurator import Views
from kvproto.protocols import (
    AllocatorRequest,
    DeclaresRegions,
    Declined,
    DSV4Compressed,
    HiSparse,
    HiSparseAllocatorRequest,
    HostCopyable,
    HostMirrorable,
    IndexerCapable,
    IndexKeyRows,
    KVPool,
    MLALatent,
    Movable,
    NoOpLeafRequest,
    PageSharded,
    Platform,
    PureSWAAllocatorRequest,
    QSAIndexed,
    RequestRingSWA,
    ShardedAllocatorRequest,
    StateTransferable,
    SWAAllocatorRequest,
    SWAComposite,
    SWARingAllocatorRequest,
    Transferable,
    supports,
)

from ..broken import LawBroken
from ..deployment import subsystem_of
from ..deployment_bench import DeploymentBench, is_built
from ..law import law

BUILT = ("builder.builds",)

_SUBSYSTEMS: Mapping[str, TypeForm[Any]] = {
    "compressed_pool": DSV4Compressed,
    "page_shards": PageSharded,
    "qsa_pool": QSAIndexed,
}
_VIEWS: Mapping[str, TypeForm[Any]] = {
    "swa": SWAComposite,
    "ring": RequestRingSWA,
    "hisparse": HiSparse,
    "page_sharded": PageSharded,
    "latent": MLALatent,
    "indexer": IndexerCapable,
    "index_rows": IndexKeyRows,
    "movable": Movable,
    "transfer": Transferable,
    "state_transfer": StateTransferable,
    "host_copy": HostCopyable,
    "host": HostMirrorable,
    "regions": DeclaresRegions,
}


@law(
    "builder.builds",
    Platform,
    when=is_built,
    check="decline what is not served, with a reason; build everything else exactly as asked",
)
def builds(bench: DeploymentBench) -> None:
    """A plan of which the platform declines no leaf becomes pools, composites where it has some."""
    call = "build(plan, platform, core)"
    if bench.pool.failure:
        raise LawBroken(call, expected="pools, or Declined(reason)", got=bench.pool.failure)
    plan, built = bench.plan, bench.built
    rowless = isinstance(plan.pool, NoOpLeafRequest)
    planned = plan.pool is not None and not rowless, rowless, plan.state, plan.draft
    found = built.pool, built.rowless, built.state, built.draft
    bench.expect(
        f"{call}: pool, rowless pool, state and draft that are there",
        expected=tuple(each is not None and each is not False for each in planned),
        got=tuple(each is not None for each in found),
    )
    bench.expect(f"{call}: leaves", expected=True, got=bool(bench.parts) or built.pool is None)


@law(
    "builder.subsystems",
    Platform,
    applies=lambda request: bool(subsystem_of(request)),
    check="name in `capabilities.subsystems` what is built, and nothing else",
)
def subsystems(bench: DeploymentBench) -> None:
    """A subsystem that is offered is built; a plan that needs another is refused by its name."""
    needed = subsystem_of(bench.request)
    offered = needed in bench.pool.watched.capabilities.subsystems
    call = f"plan({bench.request.model}), which needs {needed}"
    if not offered:
        if needed not in bench.pool.refusal:
            got = bench.pool.refusal or "a plan"
            raise LawBroken(call, expected=f"a PlanError that names {needed}", got=got)
        return
    built = bench.pool.built
    made = [] if built is None else [built.pool, built.compressed]
    if not any(supports(each, _SUBSYSTEMS.get(needed, KVPool)) for each in made):
        got = bench.pool.refusal or bench.pool.failure or "none"
        raise LawBroken(call, expected=f"the {needed} that is offered", got=got)


@law(
    "builder.leaves",
    Platform,
    when=is_built,
    needs=BUILT,
    check="take every leaf from build_leaf, and build one class however the request was come by",
)
def leaves(bench: DeploymentBench) -> None:
    """Leaves at every level are the platform's own, of the class it builds when asked alone."""
    watched = bench.pool.watched
    # Asked in another order than the build did, so that no answer depends on what was before.
    for part in reversed(bench.parts):
        answers = [leaf for request, leaf in watched.leaves if request == part.request]
        if part.request.fallback == "core" and any(isinstance(a, Declined) for a in answers):
            continue
        if not any(part.leaf is leaf for _, leaf in watched.leaves):
            got = f"{type(part.leaf).__name__}, which it never built"
            raise LawBroken(part.name, expected="one that platform.build_leaf returned", got=got)
        alone = watched.platform.build_leaf(replace(part.request, size=part.request.page_size))
        if isinstance(alone, Declined):
            raise LawBroken(f"build_leaf({part.name}, alone)", expected="a leaf", got=alone.reason)
        bench.expect(
            f"the class of {part.name}", expected=type(alone).__name__, got=type(part.leaf).__name__
        )


@law(
    "builder.allocators",
    Platform,
    when=is_built,
    needs=BUILT,
    check="take both sides of a pair from build_allocator; note each that was declined",
)
def allocators(bench: DeploymentBench) -> None:
    """Every space of slots is the platform's own allocator, but for those declined, as noted."""
    watched, allocator = bench.pool.watched, bench.built.allocator
    given = [made for _, made in watched.allocators if not isinstance(made, Declined)]
    declined = [made for _, made in watched.allocators if isinstance(made, Declined)]
    beside = [leaf for _, leaf in watched.leaves if isinstance(leaf, Declined)]
    sides = _sides(bench, allocator)
    own = sum(any(side is made for made in given) for side in sides)
    bench.expect(
        f"sides of {type(allocator).__name__} that platform.build_allocator returned",
        expected=len(sides) - len(declined),
        got=own,
    )
    noted = len(bench.built.notes)
    bench.expect("notes of the build", expected=len(declined) + len(beside), got=noted)


@law(
    "builder.views",
    Platform,
    when=is_built,
    needs=BUILT,
    check="ask `supports` of the pool as it is built, and bind the pool itself",
)
def views(bench: DeploymentBench) -> None:
    """Each bound view is the pool where it has the capability, and None where it has not."""
    bench.expect(
        "views that are bound", expected=list(_VIEWS), got=[field.name for field in fields(Views)]
    )
    built = bench.built
    _expect_bound("views", built.pool, built.views)
    _expect_bound("draft_views", built.draft, built.draft_views)


def _expect_bound(where: str, pool: object, bound: Views | None) -> None:
    if pool is None or bound is None:
        if pool is not bound:
            got = [type(each).__name__ for each in (pool, bound)]
            raise LawBroken(where, expected="a pool and its views, or neither", got=str(got))
        return
    for name, protocol in _VIEWS.items():
        view: object = getattr(bound, name)
        expected = pool if supports(pool, protocol) else None
        if view is not expected:
            shown = [type(each).__name__ for each in (expected, view)]
            raise LawBroken(f"{where}.{name}", expected=shown[0], got=shown[1])


def _sides(bench: DeploymentBench, allocator: Any) -> list[object]:
    """Who lends the slots of each space: the allocator itself, or the two of a pair.

    Where every layer is windowed the two spaces are one; pages that ranks keep in turn are lent
    by the core.
    """
    match bench.plan.allocator:
        case AllocatorRequest():
            return [allocator]
        case SWAAllocatorRequest():
            return [allocator.full_attn_allocator, allocator.swa_attn_allocator]
        case PureSWAAllocatorRequest():
            return [allocator.swa_attn_allocator]
        case SWARingAllocatorRequest():
            return [allocator.full_attn_allocator]
        case HiSparseAllocatorRequest():
            return [allocator.logical_attn_allocator, allocator.hisparse_attn_allocator]
        case ShardedAllocatorRequest():
            return []
