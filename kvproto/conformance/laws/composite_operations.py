"""Both ways: a composite can what its leaves can, and offers nothing that one of them cannot."""

from __future__ import annotations

from collections.abc import Iterable

from kvproto import protocols as p
from kvproto.protocols import Composite, supports

from ..broken import LawBroken
from ..composite_bench import CompositeBench, HybridBench
from ..law import has_layers, law
from ..ring_bench import RingBench

_ALL_CAN: tuple[type, ...] = (
    p.ScaledWrite,
    p.LayerOverrideWrite,
    p.DCPMaskedWrite,
    p.PrefixValidCommit,
    p.HostCopyable,
    p.Movable,
    p.SizeReporting,
    p.DeclaresTraits,
    p.DeclaresRegions,
)
"""What a composite does by asking each leaf."""

_LEAVES_ONLY: tuple[type, ...] = (
    p.MHARows,
    p.LatentRows,
    p.KeyOnly,
    p.FP4Workspace,
    p.HostMirrorable,
    p.PageEnvelope,
    p.LayerSharded,
    p.PageSharded,
)
"""What is storage, or a description of storage by the layer ids and pages of one leaf."""


_BY_FULL_LOCATION = (p.Movable, p.HostCopyable, p.DeclaresRegions)
"""What takes full locations or pages alone, which say nothing of rings."""


@law(
    "composite.operations",
    Composite,
    applies=has_layers,
    check="decide it when the composite is built, by its leaves; a forwarding method is an offer",
)
def operations(bench: CompositeBench) -> None:
    """It can write, move, copy, export, resume and describe what all its leaves can, else not."""
    owning = bench.owning_leaves
    hybrid = isinstance(bench, HybridBench)
    state = [bench.pool.mamba_pool] if hybrid else []
    exports = all(map(_exports_pages, owning))
    due: dict[type, bool] = {
        capability: all(supports(leaf, capability) for leaf in owning) for capability in _ALL_CAN
    }
    if isinstance(bench, RingBench):
        due |= dict.fromkeys(_BY_FULL_LOCATION, False)
    due[p.Transferable] = exports
    due[p.StateTransferable] = hybrid or exports
    due[p.LayerIdReporting] = exports and all(map(_names_all, owning))
    due[p.Resumable] = all(supports(part, p.Resumable) for part in [*owning, *state])
    for capability, told in due.items():
        _expect(bench, capability, due=told, why=f"by its leaves {_names(owning)}")


@law(
    "composite.leaves-only",
    Composite,
    check="set the member to None; whoever needs the storage asks `leaf_for`, or `leaves`",
)
def leaves_only(bench: CompositeBench) -> None:
    """What is a leaf's storage, or describes it by the leaf's own ids, only the leaf offers."""
    for capability in _LEAVES_ONLY:
        _expect(bench, capability, due=False, why="it owns no rows")


def _expect(bench: CompositeBench, capability: type, *, due: bool, why: str) -> None:
    has = supports(bench.pool, capability)
    if has is not due:
        call = f"isinstance(pool, {capability.__name__})"
        raise LawBroken(call, expected=f"{due}, {why}", got=str(has))


def _exports_pages(leaf: object) -> bool:
    """Does all that the leaf exports go by its page numbers?"""
    if not supports(leaf, p.Transferable):
        return False
    if not supports(leaf, p.StateTransferable) or supports(leaf, p.IndexerCapable):
        return True
    told = supports(leaf, p.DeclaresTraits) and leaf.pool_traits.state_index_space
    return told in ("none", "kv_pages")


def _names_all(leaf: object) -> bool:
    """Is a layer known for every region that goes by page, index pages included?"""
    described = supports(leaf, p.DeclaresRegions) or not supports(leaf, p.StateTransferable)
    return supports(leaf, p.LayerIdReporting) and described


def _names(leaves: Iterable[object]) -> list[str]:
    return [type(leaf).__name__ for leaf in leaves]
