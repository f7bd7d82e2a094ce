"""What holds for any pool over leaves: it owns no rows, and can what its parts can."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import (
    BlockScaled,
    Composite,
    DeclaresTraits,
    HybridPoolRequest,
    IndexerCapable,
    KPoolTail,
    MLALatent,
    SWAPoolRequest,
    SWARingPoolRequest,
    supports,
)

from ..broken import LawBroken
from ..composite_bench import CompositeBench
from ..law import has_layers, law
from ..storage import owned_storages


@law(
    "composite.leaves",
    Composite,
    check="hand out the same leaves every time, under roles of their own; keep no rows yourself",
)
def leaves(bench: CompositeBench) -> None:
    """The parts are named once each, are no composites, and own all the rows there are."""
    parts = bench.pool.leaves()
    roles = [role for role, _ in parts]
    again = [leaf for _, leaf in bench.pool.leaves()]
    if len(set(roles)) != len(roles) or not all(roles):
        raise LawBroken("leaves()", expected="roles that differ", got=str(roles))
    if len(parts) != len(again) or any(a is not b for (_, a), b in zip(parts, again, strict=True)):
        raise LawBroken("leaves() twice", expected="the same objects", got="others")
    if len({id(leaf) for leaf in again}) != len(again):
        raise LawBroken("leaves()", expected="each part once", got="one of them twice")
    for role, leaf in parts:
        if supports(leaf, Composite):
            raise LawBroken("leaves()", expected="leaves", got=f"a composite as '{role}'")
    _expect_no_rows(bench, again)


@law(
    "composite.leaf-for",
    Composite,
    check="give the id that the leaf's own doors take: its start_layer is not the composite's",
)
def leaf_for(bench: CompositeBench) -> None:
    """The leaf of a layer, asked with the id it comes with, is where the layer's rows are."""
    parts = [leaf for _, leaf in bench.pool.leaves()]
    for layer_id in bench.layer_ids:
        leaf, leaf_id = bench.pool.leaf_for(layer_id)
        if not any(leaf is part for part in parts):
            raise LawBroken(f"leaf_for({layer_id})", expected="one of leaves()", got="another")
        if not bench.shows_leaf(layer_id, (leaf, leaf_id)):
            raise LawBroken(
                f"leaf_for({layer_id})[0].get_key_buffer({leaf_id})",
                expected=f"the buffer of get_key_buffer({layer_id})",
                got="another one",
            )
    for layer_id in bench.foreign_layer_ids:
        bench.expect_raises(
            f"leaf_for({layer_id}) on a pool of layers {list(bench.layer_ids)}",
            partial(bench.pool.leaf_for, layer_id),
            ValueError,
        )


@law(
    "composite.capabilities",
    Composite,
    applies=has_layers,
    check="resolve to the leaves when the composite is built; forward what works for all of them",
)
def capabilities(bench: CompositeBench) -> None:
    """It keeps index keys where a leaf does, latent rows and block scales where all of them do."""
    owning = bench.owning_leaves
    told: dict[type, bool] = {
        IndexerCapable: any(supports(leaf, IndexerCapable) for leaf in owning),
        MLALatent: all(supports(leaf, MLALatent) for leaf in owning),
        BlockScaled: all(supports(leaf, BlockScaled) for leaf in owning),
        KPoolTail: any(supports(leaf, KPoolTail) for leaf in owning),
    }
    for capability, due in told.items():
        has = supports(bench.pool, capability)
        if has is not due:
            raise LawBroken(
                f"isinstance(pool, {capability.__name__})",
                expected=f"{due}, by its leaves {[type(leaf).__name__ for leaf in owning]}",
                got=str(has),
            )


@law(
    "composite.traits",
    Composite,
    DeclaresTraits,
    check="say what the composite is; a leaf's own traits are asked of the leaf",
)
def traits(bench: CompositeBench) -> None:
    """The declared kind is the composite's, and so is the space of what it exports as state."""
    told = bench.pool.pool_traits
    bench.expect(
        "pool_traits.kind, .state_index_space",
        expected=_DECLARED[type(bench.whole)],
        got=(told.kind, told.state_index_space),
    )
    bench.expect("pool_traits.layout", expected="composite", got=told.layout)


_DECLARED: dict[type, tuple[str, str]] = {
    SWAPoolRequest: ("swa", "swa_pages"),
    SWARingPoolRequest: ("swa", "request_slot"),
    HybridPoolRequest: ("hybrid_linear", "state_slot"),
}


def _expect_no_rows(bench: CompositeBench, parts: list[object]) -> None:
    """A table of one integer a location is bookkeeping; anything larger is a leaf's to own."""
    slots = bench.slots
    theirs = {address for leaf in parts for address in owned_storages(leaf, 1)}
    mine = owned_storages(bench.pool, slots)
    table = (slots + 1) * torch.int64.itemsize
    rows = {a: n for a, n in mine.items() if a not in theirs and n > table}
    if rows:
        raise LawBroken(
            "the composite's own tensors",
            expected="none with rows: leaves own them",
            got=f"{sum(rows.values())} bytes that are in no leaf",
        )
