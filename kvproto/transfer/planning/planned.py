"""One pair of regions whose pages may travel, as the plan has it."""

from __future__ import annotations

from collections.abc import Iterator

from ..manifests.manifest import ManifestRegion, PoolName
from .fit import has_other_layout, is_split, kept_fields, step_bytes
from .heads import head_cut
from .pairing import Matched
from .pieces import pieces_between, repeated, split_pieces, whole_page
from .plan import Pieces, PlannedEnd, RegionPair

__all__ = ["planned"]


def planned(pool: PoolName, pair: Matched) -> Iterator[RegionPair]:
    """One pair for all its layers; where pages hold all layers of which some travel, one for each.

    What is in another order at the other end goes whole, to be converted there.
    """
    converted = not pair.local.region.is_envelope and has_other_layout(pair)
    if _is_alike(pair) or converted:
        apart = pair.layer_ids if pair.local.region.is_envelope else ()
        parts = tuple(_pieces(pair, layer_id) for layer_id in apart)
        yield _pair(pool, pair, pair.layer_ids, _whole(pair), parts, is_converted=converted)
    elif pair.local.region.is_envelope:
        for layer_id in pair.layer_ids:
            yield _pair(pool, pair, (layer_id,), _pieces(pair, layer_id))
    else:
        yield _pair(pool, pair, pair.layer_ids, _pieces(pair, pair.layer_ids[0]))


def _is_alike(pair: Matched) -> bool:
    mine, theirs = pair.local.region, pair.remote.region
    layers = not mine.is_envelope or mine.layer_ids == theirs.layer_ids
    alike = pair.local.heads == pair.remote.heads and pair.local.split == pair.remote.split
    return mine.fields == theirs.fields and layers and alike


def _pieces(pair: Matched, layer_id: int) -> Pieces:
    if pair.local.split is not None and pair.remote.split is not None and is_split(pair):
        return split_pieces(pair.local.split, pair.remote.split, step_bytes(pair.local))
    mine, theirs = (
        [end.region.in_layer(layer_id, field) for field in kept_fields(end.region)]
        for end in (pair.local, pair.remote)
    )
    return _of_item(pair, pieces_between(mine, theirs, head_cut(pair.local, pair.remote)))


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
    *,
    is_converted: bool = False,
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
        is_converted=is_converted,
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
