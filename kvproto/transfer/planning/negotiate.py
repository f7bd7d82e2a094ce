"""Two manifests become a plan, or the fields in which they differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvproto.protocols import PoolTraits

from ..manifests.manifest import (
    MANIFEST_VERSION,
    Conversion,
    IndexSpace,
    PoolManifest,
    PoolName,
    PoolPart,
)
from ..manifests.refusal import NegotiationError, Refusal
from .convertible import layout_advice
from .fit import differences
from .pairing import Matched, matched, unmatched
from .plan import Direction, RegionPair, SpacePages, TransferPlan
from .planned import planned
from .repage import in_pages_of, page_size_refusals

__all__ = ["negotiate"]

_TRAITS = ("quant_scheme", "fp8_variant", "scale_layout", "index_scheme", "swa_storage")
"""Traits that say what bytes mean; how they lie is said by the regions, more closely."""


def negotiate(
    local: PoolManifest, remote: PoolManifest, *, direction: Direction = "write"
) -> TransferPlan:
    """What may travel between two processes, and how. No byte has moved.

    Capacities may differ. So may the layers, of which those that both have travel, matched by their
    global id; the heads of two ranks that tell theirs; page sizes, where pages of one are pages of
    the other in a row; and the order of elements, where both sides convert. `direction` says who
    receives: the remote side of a write, the local one of a read.

    :raises NegotiationError: with every field in which the pages differ, and both its values.
    """
    refusals = list(_of_manifests(local, remote))
    names: list[PoolName] = [] if refusals else [part.name for part in local.pools]
    sides = [(local.pool(name), remote.pool(name)) for name in names]
    conversion: Conversion = "staging"
    if "none" in (local.conversion, remote.conversion):
        conversion = "none"
    pairs: list[RegionPair] = []
    for mine, theirs in sides:
        found = list(_of_pools(mine, theirs))
        apart = any(line.field == "page_size" for line in found)
        cut = [] if apart else _in_equal_pages(mine, theirs)
        found += [line for each in cut for line in _of_pair(mine.name, each, conversion)]
        pairs += [] if found else [made for each in cut for made in planned(mine.name, each)]
        refusals += found
    if refusals:
        raise NegotiationError(refusals)
    return TransferPlan(
        local=local,
        remote=remote,
        direction=direction,
        spaces=_spaces(local, remote, pairs),
        pairs=tuple(pairs),
        local_only={mine.name: _only(mine, theirs) for mine, theirs in sides},
        remote_only={theirs.name: _only(theirs, mine) for mine, theirs in sides},
    )


def _of_manifests(local: PoolManifest, remote: PoolManifest) -> Iterator[Refusal]:
    if not local.version == remote.version == MANIFEST_VERSION:
        yield _refusal("manifest", "version", local.version, remote.version)
        return
    mine, theirs = ([part.name for part in side.pools] for side in (local, remote))
    if mine != theirs:
        yield _refusal("manifest", "pools", " and ".join(mine), " and ".join(theirs))


def _of_pools(local: PoolPart, remote: PoolPart) -> Iterator[Refusal]:
    if local.traits is not None and remote.traits is not None:
        yield from _of_traits(local.name, local.traits, remote.traits)
    yield from page_size_refusals(local, remote)
    yield from unmatched(local, remote)


def _in_equal_pages(local: PoolPart, remote: PoolPart) -> list[Matched]:
    unit = min(local.page_size, remote.page_size)
    return matched(in_pages_of(local, unit), in_pages_of(remote, unit))


def _of_pair(pool: PoolName, pair: Matched, conversion: Conversion) -> Iterator[Refusal]:
    where = f"{pool} {pair.local.space} {pair.local.name}"
    for field, mine, theirs in differences(pair, conversion):
        advice = layout_advice(pair) if field == "layout" else ""
        yield _refusal(where, field, mine, theirs, advice)


def _of_traits(where: str, local: PoolTraits, remote: PoolTraits) -> Iterator[Refusal]:
    for field in _TRAITS:
        mine, theirs = getattr(local, field), getattr(remote, field)
        if mine != theirs:
            yield _refusal(where, field, mine, theirs)


def _spaces(
    local: PoolManifest, remote: PoolManifest, pairs: Sequence[RegionPair]
) -> dict[IndexSpace, SpacePages]:
    """Spaces of what travels: of pages as long as each side's, and of numbers that are no pages."""
    sizes = SpacePages(local=local.pools[0].page_size, remote=remote.pools[0].page_size)
    one = SpacePages(local=1, remote=1)
    found: dict[IndexSpace, SpacePages] = {}
    for pair in pairs:
        found[pair.space] = sizes if pair.space in ("full", "window") else one
    return found


def _only(part: PoolPart, other: PoolPart) -> tuple[int, ...]:
    return tuple(i for i in part.layer_ids if i not in other.layer_ids)


def _refusal(where: str, field: str, mine: object, theirs: object, advice: str = "") -> Refusal:
    return Refusal(field=field, where=where, local=str(mine), remote=str(theirs), advice=advice)
