"""The regions of a pool, and what the pages of each are numbered by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvproto.protocols import (
    BlockScaled,
    BufferRegion,
    Composite,
    DeclaresRegions,
    KPoolTail,
    KVLeaf,
    RequestRingSWA,
    StateTransferable,
    SWAComposite,
    Transferable,
    require,
    supports,
)

from .manifest import IndexSpace, ManifestRegion

__all__ = ["regions_of"]

_FOR = "describe()"

_MOST_LAYERS = 1 << 16
"""Global layer ids are looked for below it."""


def regions_of(pool: Transferable) -> Iterator[ManifestRegion]:
    """Every region of a pool, in the order of its declaration.

    :raises CapabilityError: for a pool that does not say where its bytes are.
    """
    items = _item_bytes(pool)
    for space, region in _numbered(pool):
        item = items.get(region.bases[0], region.bytes_per_page)
        yield ManifestRegion(
            space=space, region=region, pages_per_item=item // region.bytes_per_page
        )


def _numbered(pool: Transferable) -> Iterator[tuple[IndexSpace, BufferRegion]]:
    if supports(pool, RequestRingSWA) and pool.swa_req_ring_size:
        yield from _beside_rings(pool)
        return
    window = _window_bases(pool)
    for region in require(pool, DeclaresRegions, for_=_FOR).buffer_regions():
        if region.by_request:
            yield "request", region
        elif region.fields[0].name == "state":
            yield "state", region
        else:
            yield "window" if window.intersection(region.bases) else "full", region


def _window_bases(pool: object) -> set[int]:
    """Where the leaf that window pages number begins, layer by layer."""
    if not supports(pool, SWAComposite):
        return set()
    leaf = require(pool.swa_kv_pool, DeclaresRegions, for_=_FOR)
    return {base for region in leaf.buffer_regions() for base in region.bases}


def _beside_rings(pool: RequestRingSWA) -> Iterator[tuple[IndexSpace, BufferRegion]]:
    """A pool of rings has its window leaf by the row, and so declares no pages of it itself."""
    by_row = set(pool.get_request_state_buf_infos()[0])
    whole = require(pool, Composite, for_=_FOR)
    for _, leaf in whole.leaves():
        ids = _global_ids(whole, require(leaf, KVLeaf, for_=_FOR))
        for region in require(leaf, DeclaresRegions, for_=_FOR).buffer_regions():
            space: IndexSpace = "request" if by_row.intersection(region.bases) else "full"
            yield space, replace(region, layer_ids=tuple(ids[i] for i in region.layer_ids))


def _global_ids(pool: Composite, leaf: KVLeaf) -> dict[int, int]:
    """The leaf's own id of each layer -> the global id, found by asking for one id after another.

    :raises ValueError: for a composite that leads to fewer layers of the leaf than it has.
    """
    found: dict[int, int] = {}
    for layer_id in range(_MOST_LAYERS):
        if len(found) == leaf.layer_num:
            return found
        try:
            owner, own_id = pool.leaf_for(layer_id)
        except ValueError:  # a layer that keeps no rows, or another stage's
            continue
        if owner is leaf:
            found[own_id] = layer_id
    raise ValueError(f"leaf_for() leads to {len(found)} of a leaf's {leaf.layer_num} layers")


def _item_bytes(pool: Transferable) -> dict[int, int]:
    """Bytes that one number names in the region that begins at an address."""
    tables = [pool.get_contiguous_buf_infos()]
    if supports(pool, BlockScaled):
        tables.append(pool.get_kv_scale_buf_infos())
    if supports(pool, StateTransferable):
        tables.append(pool.get_state_buf_infos())
    if supports(pool, KPoolTail):
        tables.append(pool.get_compress_tail_buf_infos())
    entries = [zip(bases, items, strict=True) for bases, _, items in tables]
    return {base: item for each in entries for base, item in each}
