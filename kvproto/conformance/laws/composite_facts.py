"""What a composite says of its parts: the stage they make up, their bytes, who holds the rows."""

from __future__ import annotations

from kvproto.protocols import (
    Composite,
    DeclaresRegions,
    DeclaresTraits,
    SizeReporting,
    supports,
)

from ..broken import LawBroken
from ..composite_bench import CompositeBench, HybridBench
from ..law import law
from ..not_asked import NotAsked
from .facts import size_parts


@law(
    "composite.stage",
    Composite,
    check="the first global id of all parts; 0 is that of the first pipeline stage only",
)
def stage(bench: CompositeBench) -> None:
    """The stage starts with the first layer that any part has, whatever kind of layer that is."""
    first = min(_every_id(bench))
    if bench.pool.start_layer != first:
        raise LawBroken("pool.start_layer", expected=str(first), got=str(bench.pool.start_layer))


@law(
    "composite.regions",
    Composite,
    DeclaresRegions,
    check="replace the leaf's layer ids by the model's",
)
def regions(bench: CompositeBench) -> None:
    """Declared regions name layers by their global ids, every layer that has rows among them."""
    told = {layer_id for region in bench.pool.buffer_regions() for layer_id in region.layer_ids}
    if not set(bench.layer_ids) <= told <= set(_every_id(bench)):
        raise LawBroken(
            "layer ids of buffer_regions()", expected=str(bench.layer_ids), got=str(sorted(told))
        )


@law(
    "composite.size",
    Composite,
    SizeReporting,
    check="add up the leaves' bytes, each side for itself; a latent row counts as a key",
)
def size(bench: CompositeBench) -> None:
    """The reported bytes are those of the leaves: one number where all of theirs are, or a pair."""
    sized = [leaf for leaf in bench.owning_leaves if supports(leaf, SizeReporting)]
    parts = [size_parts(leaf.get_kv_size_bytes()) for leaf in sized]
    if not parts:
        raise NotAsked("no leaf with layers reports its bytes")
    sides = max(map(len, parts))
    expected = tuple(sum(part[i] for part in parts if i < len(part)) for i in range(sides))
    got = size_parts(bench.pool.get_kv_size_bytes())
    bench.expect("get_kv_size_bytes()", expected=expected, got=got)


@law(
    "composite.replication",
    Composite,
    DeclaresTraits,
    check="take it from the leaves: a pair of latent leaves is whole on every rank, as they are",
)
def replication(bench: CompositeBench) -> None:
    """Where all leaves are held by the same ranks, so is the composite, and says so."""
    saying = [leaf for leaf in bench.owning_leaves if supports(leaf, DeclaresTraits)]
    told = {leaf.pool_traits.replication for leaf in saying}
    got = bench.pool.pool_traits.replication
    if len(told) != 1:
        raise NotAsked("its leaves do not name one and the same group of ranks")
    if got not in told:
        raise LawBroken("pool_traits.replication", expected=f"{told.pop()!r}", got=f"{got!r}")


def _every_id(bench: CompositeBench) -> list[int]:
    state = bench.whole.state.mamba_layer_ids if isinstance(bench, HybridBench) else ()
    return [*bench.layer_ids, *state]
