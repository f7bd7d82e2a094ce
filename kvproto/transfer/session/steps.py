"""The order in which layers travel: what a part of a transfer is counted in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..manifests.manifest import IndexSpace, PoolName
from ..planning.plan import RegionPair, TransferPlan

__all__ = ["Step", "Steps", "steps_of"]


class Step(NamedTuple):
    """One layer of one pool that travels, by its global id."""

    pool: PoolName
    layer_id: int


@dataclass(frozen=True, slots=True)
class Steps:
    """Every step: the target's layers ascending, then the draft's. Both ends have the same.

    `nbytes` has, by space, how many bytes of one page of the plan travel in each step;
    `together` the spaces whose pages hold all layers.
    """

    order: tuple[Step, ...]
    nbytes: dict[IndexSpace, tuple[int, ...]]
    together: frozenset[IndexSpace]

    def __len__(self) -> int:
        return len(self.order)


def steps_of(plan: TransferPlan) -> Steps:
    """The steps of a plan."""
    order = tuple(
        Step(part.name, layer_id)
        for part in plan.local.pools
        for layer_id in plan.layer_ids(part.name)
    )
    return Steps(
        order=order,
        nbytes={
            space: tuple(_nbytes(plan, step, space) for step in order) for space in plan.spaces
        },
        together=frozenset(pair.space for pair in plan.pairs if pair.layer_pieces),
    )


def _nbytes(plan: TransferPlan, step: Step, space: IndexSpace) -> int:
    return sum(
        _of_layer(pair, step.layer_id)
        for pair in plan.pairs
        if pair.pool == step.pool and pair.space == space and step.layer_id in pair.layer_ids
    )


def _of_layer(pair: RegionPair, layer_id: int) -> int:
    if not pair.layer_pieces:
        return pair.pieces.total
    return pair.layer_pieces[pair.layer_ids.index(layer_id)].total
