"""Whether the peers of a receiver have, together, every byte that its pages must get."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ..manifests.manifest import IndexSpace, ManifestRegion, PoolManifest, PoolName
from ..planning.plan import PlannedEnd, RegionPair, TransferPlan

__all__ = ["check_coverage"]

Unit: TypeAlias = tuple[PoolName, IndexSpace, str, int, int, int]
"""A pool, a space, what the bytes are, the place of its region, a layer, and a head or a step of
state that ranks split; -1 where there are none to tell."""


def check_coverage(plans: Sequence[TransferPlan]) -> None:
    """All plans are of one receiver.

    :raises ValueError: naming what no peer sends.
    """
    wanted = {unit for plan in plans[:1] for unit in _of_manifest(plan.local)}
    given = {unit for plan in plans for pair in plan.pairs for unit in _of_pair(plan, pair)}
    if missing := sorted(wanted - given):
        pool, space, name, _, layer_id, share = missing[0]
        what = "step" if space == "state" else "head"
        which = f", {what} {share}" if share >= 0 else ""
        raise ValueError(
            f"no peer sends {name} of layer {layer_id}{which} ({pool} pool, {space} space), nor "
            f"{len(missing) - 1} more: a page would be seen without these"
        )


def _of_manifest(manifest: PoolManifest) -> Iterator[Unit]:
    for part in manifest.pools:
        for place, each in enumerate(part.regions):
            for layer_id in each.region.layer_ids:
                for share in _shares(each):
                    yield part.name, each.space, each.name, place, layer_id, share


def _of_pair(plan: TransferPlan, pair: RegionPair) -> Iterator[Unit]:
    place, mine = _declared(plan.local, pair, pair.local)
    _, theirs = _declared(plan.remote, pair, pair.remote)
    sent = set(_shares(theirs))
    for layer_id in pair.layer_ids:
        for share in _shares(mine):
            if share in sent or -1 in sent:
                yield pair.pool, pair.space, pair.name, place, layer_id, share


def _declared(
    manifest: PoolManifest, pair: RegionPair, end: PlannedEnd
) -> tuple[int, ManifestRegion]:
    """The region in its manifest; cutting pages leaves its bases as they are."""
    regions = enumerate(manifest.pool(pair.pool).regions)
    return next(each for each in regions if each[1].region.bases == end.region.bases)


def _shares(each: ManifestRegion) -> list[int]:
    """What of a row is here, counted over all ranks."""
    if each.split is not None:
        return [step for first, stop in each.split.parts for step in range(first, stop)]
    return [-1] if each.heads is None else list(range(*each.heads))
