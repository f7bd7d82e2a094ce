"""One pair of regions: what of a page travels, or why none of it may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kvproto.protocols import BufferRegion, Field

from .manifest import ManifestRegion, PoolName
from .pairing import Matched
from .pieces import pieces_between, repeated, whole_page
from .plan import Pieces, PlannedEnd, RegionPair
from .refusal import Refusal

__all__ = ["differences", "planned"]

Difference: TypeAlias = tuple[str, object, object]
"""A field, its local and its remote value."""


def differences(pool: PoolName, pair: Matched) -> Iterator[Refusal]:
    """A line for each field in which the pages differ."""
    mine, theirs = pair.local, pair.remote
    where = f"{pool} {mine.space} {mine.name}"
    for field, local, remote in _differences(mine, theirs):
        yield Refusal(field=field, where=where, local=str(local), remote=str(remote))


def _differences(mine: ManifestRegion, theirs: ManifestRegion) -> Iterator[Difference]:
    if mine.region.page_size != theirs.region.page_size:
        yield "page_size", mine.region.page_size, theirs.region.page_size
    if mine.pages_per_item != theirs.pages_per_item:
        yield "pages_per_item", mine.pages_per_item, theirs.pages_per_item
    if mine.heads != theirs.heads:
        yield "heads", mine.heads, theirs.heads
    for here, there in zip(_kept(mine.region), _kept(theirs.region), strict=True):
        yield from _of_field(here, there)


def _kept(region: BufferRegion) -> tuple[Field, ...]:
    return tuple(field for field in region.fields if field.name != "padding")


def _of_field(here: Field, there: Field) -> Iterator[Difference]:
    if here.element != there.element:
        fp8 = here.element.startswith("float8") and there.element.startswith("float8")
        yield "fp8_variant" if fp8 else "dtype", here.element, there.element
    shapes = [{axis.name: axis.size for axis in field.axes} for field in (here, there)]
    for name in sorted(set(shapes[0]) | set(shapes[1])):
        if name not in ("token", "layer") and shapes[0].get(name) != shapes[1].get(name):
            label = "heads" if name == "head" else f"{here.name} {name}"
            yield label, shapes[0].get(name, "none"), shapes[1].get(name, "none")


def planned(pool: PoolName, pair: Matched) -> Iterator[RegionPair]:
    """The pair as the plan has it; a page of all layers of which some travel is a pair a layer."""
    mine, theirs = pair.local.region, pair.remote.region
    if mine.is_envelope and mine.fields == theirs.fields and mine.layer_ids == theirs.layer_ids:
        each = tuple(_pieces(pair, layer_id) for layer_id in pair.layer_ids)
        yield _pair(pool, pair, pair.layer_ids, _whole(pair), each)
    elif mine.is_envelope:
        for layer_id in pair.layer_ids:
            yield _pair(pool, pair, (layer_id,), _pieces(pair, layer_id))
    elif mine.fields == theirs.fields:
        yield _pair(pool, pair, pair.layer_ids, _whole(pair))
    else:
        yield _pair(pool, pair, pair.layer_ids, _pieces(pair, pair.layer_ids[0]))


def _pieces(pair: Matched, layer_id: int) -> Pieces:
    mine, theirs = (
        [end.region.in_layer(layer_id, field) for field in _kept(end.region)]
        for end in (pair.local, pair.remote)
    )
    return _of_item(pair, pieces_between(mine, theirs))


def _whole(pair: Matched) -> Pieces:
    return _of_item(pair, whole_page(pair.local.region.bytes_per_page))


def _of_item(pair: Matched, pieces: Pieces) -> Pieces:
    times = pair.local.pages_per_item
    return repeated(pieces, times, pair.local.region.page_stride, pair.remote.region.page_stride)


def _pair(
    pool: PoolName,
    pair: Matched,
    layer_ids: tuple[int, ...],
    pieces: Pieces,
    layer_pieces: tuple[Pieces, ...] = (),
) -> RegionPair:
    return RegionPair(
        pool=pool,
        space=pair.local.space,
        name=pair.local.name,
        layer_ids=layer_ids,
        local=_end(pair.local, layer_ids),
        remote=_end(pair.remote, layer_ids),
        pieces=pieces,
        layer_pieces=layer_pieces,
    )


def _end(each: ManifestRegion, layer_ids: tuple[int, ...]) -> PlannedEnd:
    region = each.region
    bases = tuple(region.page_address(layer_id, 0) for layer_id in layer_ids)
    return PlannedEnd(
        region=region,
        bases=bases[:1] if region.is_envelope else bases,
        page_count=each.capacity,
        page_stride=region.page_stride * each.pages_per_item,
    )
