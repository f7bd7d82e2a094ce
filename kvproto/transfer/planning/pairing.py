"""Which region of one pool is which region of the other: by what it holds, layer by layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ..manifests.manifest import IndexSpace, ManifestRegion, PoolPart
from ..manifests.refusal import Refusal

__all__ = ["Matched", "matched", "unmatched"]

Kind: TypeAlias = tuple[IndexSpace, str, int]
"""Space, name, and which of a layer's regions of that name: recurrent layers have several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """Two regions of the same bytes, and the global layers that both have."""

    local: ManifestRegion
    remote: ManifestRegion
    layer_ids: tuple[int, ...]


def matched(local: PoolPart, remote: PoolPart) -> list[Matched]:
    """The pairs, in the local order; layers that one side has not are left out."""
    mine, theirs = _by_kind(local), _by_kind(remote)
    layers: dict[tuple[int, int], list[int]] = {}
    for kind, held in mine.items():
        for layer_id, region in held.items():
            if layer_id in theirs.get(kind, {}):
                layers.setdefault((region, theirs[kind][layer_id]), []).append(layer_id)
    return [
        Matched(local=local.regions[i], remote=remote.regions[j], layer_ids=tuple(ids))
        for (i, j), ids in layers.items()
    ]


def unmatched(local: PoolPart, remote: PoolPart) -> Iterator[Refusal]:
    """Layers of both sides with bytes of a kind on one side only; no layer on both sides."""
    common = set(local.layer_ids) & set(remote.layer_ids)
    if (local.layer_ids or remote.layer_ids) and not common:
        yield _of_layers(local.name, "layer_ids", local.layer_ids, remote.layer_ids)
    mine, theirs = _by_kind(local), _by_kind(remote)
    for kind in sorted({*mine, *theirs}):
        here = sorted(common.intersection(mine.get(kind, {})))
        there = sorted(common.intersection(theirs.get(kind, {})))
        if here != there:
            space, name, _ = kind
            field = "layer_ids" if here and there else _why_missing(space, local, remote)
            yield _of_layers(f"{local.name} {space} {name}", field, tuple(here), tuple(there))


def _why_missing(space: IndexSpace, local: PoolPart, remote: PoolPart) -> str:
    """The same fields in other regions are another layout; else there are none of the kind."""
    fields = [
        {name for each in part.in_space(space) for name in each.name.split("/")}
        for part in (local, remote)
    ]
    return "layout" if fields[0] == fields[1] else "regions"


def _by_kind(part: PoolPart) -> dict[Kind, dict[int, int]]:
    """Kind -> layer -> place in the pool's regions."""
    found: dict[Kind, dict[int, int]] = {}
    seen: Counter[tuple[IndexSpace, str, int]] = Counter()
    for index, each in enumerate(part.regions):
        for layer_id in each.region.layer_ids:
            before = seen[each.space, each.name, layer_id]
            seen[each.space, each.name, layer_id] += 1
            found.setdefault((each.space, each.name, before), {})[layer_id] = index
    return found


def _of_layers(where: str, field: str, mine: tuple[int, ...], theirs: tuple[int, ...]) -> Refusal:
    local, remote = (f"layers {list(ids)}" if ids else "none" for ids in (mine, theirs))
    return Refusal(field=field, where=where, local=local, remote=remote)
