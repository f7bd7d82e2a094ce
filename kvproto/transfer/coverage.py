"""Whether the peers of a receiver have, together, every byte that its pages must get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from .manifest import IndexSpace, ManifestRegion, PoolManifest, PoolName
from .plan import RegionPair, TransferPlan

__all__ = ["check_coverage"]

Unit: TypeAlias = tuple[PoolName, IndexSpace, str, int, int]
"""A pool, a space, what the bytes are, a layer, a head; -1 where there are no heads to tell."""


def check_coverage(plans: Sequence[TransferPlan]) -> None:
    """All plans are of one receiver.

    :raises ValueError: naming what no peer sends.
    """
    wanted = {unit for plan in plans[:1] for unit in _of_manifest(plan.local)}
    given = {unit for plan in plans for pair in plan.pairs for unit in _of_pair(plan, pair)}
    if missing := sorted(wanted - given):
        pool, space, name, layer_id, head = missing[0]
        which = f", head {head}" if head >= 0 else ""
        raise ValueError(
            f"no peer sends {name} of layer {layer_id}{which} ({pool} pool, {space} space), nor "
            f"{len(missing) - 1} more: a page would be seen without these"
        )


def _of_manifest(manifest: PoolManifest) -> Iterator[Unit]:
    for part in manifest.pools:
        for each in part.regions:
            for layer_id in each.region.layer_ids:
                for head in _heads(each):
                    yield part.name, each.space, each.name, layer_id, head


def _of_pair(plan: TransferPlan, pair: RegionPair) -> Iterator[Unit]:
    for layer_id in pair.layer_ids:
        mine, theirs = (_region(side, pair, layer_id) for side in (plan.local, plan.remote))
        sent = set(_heads(theirs))
        for head in _heads(mine):
            if head in sent or -1 in sent:
                yield pair.pool, pair.space, pair.name, layer_id, head


def _region(manifest: PoolManifest, pair: RegionPair, layer_id: int) -> ManifestRegion:
    return next(
        each
        for each in manifest.pool(pair.pool).in_space(pair.space)
        if each.name == pair.name and layer_id in each.region.layer_ids
    )


def _heads(each: ManifestRegion) -> range:
    return range(-1, 0) if each.heads is None else range(*each.heads)
