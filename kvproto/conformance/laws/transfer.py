"""What a transfer engine may rely on: pages are where the descriptors say."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import torch

from kvproto.protocols import (
    BlockScaled,
    BufferRegion,
    DeclaresRegions,
    DeclaresTraits,
    KPoolTail,
    KVLeaf,
    KVPool,
    LayerIdReporting,
    StateTransferable,
    Transferable,
    buf_infos,
    supports,
)

from ..broken import LawBroken
from ..kv_bench import KVBench, Side
from ..law import has_layers, law
from ..not_asked import NotAsked
from ..oracle import peek, poke
from ..storage import kept_bytes
from .leaf import OWNED

_OTHER = ("component_groups", "page_envelope", "ratio_groups")
"""Declared orders in which a region is not one layer's keys or values."""


@law(
    "transfer.lists",
    Transferable,
    check="one entry per region in each of the three lists; count whole pages",
)
def lists(bench: KVBench) -> None:
    """Pointers, lengths and item lengths are lists of equal length, each length whole items."""
    infos = bench.pool.get_contiguous_buf_infos()
    sizes = [len(part) for part in infos]
    if len(infos) != 3 or len(set(sizes)) != 1:
        raise LawBroken("get_contiguous_buf_infos()", expected="three equal lists", got=str(sizes))
    for pointer, length, item in zip(*infos, strict=True):
        if item <= 0 or length % item:
            raise LawBroken(
                "get_contiguous_buf_infos()",
                expected="len a multiple of item_len",
                got=f"len {length}, item_len {item} at {pointer:#x}",
            )


@law(
    "transfer.item-len",
    Transferable,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="item_len is bytes per PAGE: multiply a token's bytes by page_size, once",
)
def item_len(bench: KVBench) -> None:
    """The item length is the bytes of one page: copying one item copies one page and no more."""
    page = bench.request.page_size
    _, lengths, items = bench.pool.get_contiguous_buf_infos()
    wanted = _page_bytes(bench)
    for length, item in zip(lengths, items, strict=True):
        if sum(items) != wanted or length != item * (bench.slots // page):
            raise LawBroken(
                f"get_contiguous_buf_infos() with page_size={page}",
                expected=f"items of {wanted} bytes in all, {bench.slots // page} to a region",
                got=f"{sum(items)} bytes in all, region of {length} bytes in items of {item}",
            )
    _fill_pages(bench)
    for pointer, _, item in by_page(bench.pool):
        poke(pointer + item, peek(pointer + 2 * item, item))
    for layer_id in bench.layer_ids:
        for side in bench.sides:
            got = bench.stored(side, layer_id)
            expected = _filled(bench, side, layer_id)
            if layer_id in bench.page_layer_ids:
                expected[page : 2 * page] = expected[2 * page : 3 * page]
            bench.expect_same(
                "page 2's bytes copied over page 1 of every region", got, expected, f"{side} row"
            )


@law(
    "transfer.complete",
    Transferable,
    KVLeaf,
    check="a buffer left out: index keys, scales, a draft's layers",
)
def complete(bench: KVBench) -> None:
    """Every per-token byte the pool owns is in exactly one exported region, of pages or state."""
    spans = sorted(exported(bench.pool))
    for (a, length, _), (b, _, _) in pairwise(spans):
        if a + length > b:
            raise LawBroken(
                "the exported regions",
                expected="regions that do not overlap",
                got=f"{length} bytes at {a:#x} reach past {b:#x}",
            )
    owned = kept_bytes(bench.pool, bench.slots)
    total = sum(length for _, length, _ in spans)
    if total != owned:
        raise LawBroken(
            "the exported regions",
            expected=f"{owned} bytes, as the pool's per-token tensors hold",
            got=f"{total} bytes exported",
        )


@law(
    "transfer.no-layers",
    Transferable,
    applies=lambda r: not has_layers(r),
    check="a pipeline stage may own no layer that keeps KV",
)
def no_layers(bench: KVBench) -> None:
    """A pool without layers exports three empty lists."""
    infos = tuple(list(part) for part in bench.pool.get_contiguous_buf_infos())
    if infos != ([], [], []):
        raise LawBroken("get_contiguous_buf_infos()", expected="([], [], [])", got=str(infos))


@law(
    "transfer.layer-ids",
    Transferable,
    LayerIdReporting,
    check="global ids, one for each entry of get_contiguous_buf_infos, in its order",
)
def layer_ids(bench: KVBench) -> None:
    """Each exported region has one reported layer id, and the ids are those of the stage."""
    ids = bench.pool.get_kv_layer_ids()
    regions = len(bench.pool.get_contiguous_buf_infos()[0])
    if len(ids) != regions or set(ids) != set(bench.page_layer_ids):
        raise LawBroken(
            "get_kv_layer_ids()",
            expected=f"{regions} ids out of {list(bench.page_layer_ids)}",
            got=str(ids),
        )


@law(
    "transfer.order",
    Transferable,
    KVLeaf,
    applies=has_layers,
    needs=OWNED,
    check="keys of all layers, then values of all layers; a latent row is one region a layer",
)
def order(bench: KVBench) -> None:
    """Regions come layer by layer: the keys of all layers first, then the values of all."""
    if _orders_otherwise(bench.pool):
        raise NotAsked("it declares another order of regions")
    _fill_pages(bench)
    places: list[tuple[Side, int]] = [
        (side, layer_id) for side in bench.sides for layer_id in bench.layer_ids
    ]
    pointers, _, items = bench.pool.get_contiguous_buf_infos()
    for entry, place in enumerate(places):
        before = [bench.stored(*each) for each in places]
        poke(pointers[entry] + items[entry], bytes(items[entry]))
        pairs = zip(places, before, strict=True)
        changed = [each for each, was in pairs if not torch.equal(was, bench.stored(*each))]
        bench.expect(f"what entry {entry} holds, by side and layer", expected=[place], got=changed)


def _keeps_groups(bench: object, /) -> bool:
    """For pools that declare groups of regions."""
    pool: object = bench.pool if isinstance(bench, KVBench) else None
    return supports(pool, DeclaresTraits) and (
        pool.pool_traits.transfer_layout == "component_groups"
    )


@law(
    "transfer.groups",
    Transferable,
    LayerIdReporting,
    KVLeaf,
    applies=has_layers,
    when=_keeps_groups,
    needs=("transfer.layer-ids",),
    check="list every layer of one kind of row before the first of the next, each kind as wide",
)
def groups(bench: KVBench) -> None:
    """Declared component groups come one after another, every layer in each, of one item length."""
    found: list[list[tuple[int, int]]] = []
    items = bench.pool.get_contiguous_buf_infos()[2]
    for layer_id, item in zip(bench.pool.get_kv_layer_ids(), items, strict=True):
        if not found or layer_id <= found[-1][-1][0]:
            found.append([])
        found[-1].append((layer_id, item))
    for number, group in enumerate(found):
        ids, widths = [layer_id for layer_id, _ in group], {item for _, item in group}
        bench.expect(f"layers of group {number}", expected=list(bench.page_layer_ids), got=ids)
        bench.expect(f"item lengths in group {number}", expected=1, got=len(widths))


@law(
    "transfer.mem-pool",
    Transferable,
    check="None where the buffers come from torch's default allocator, as on the CPU they do",
)
def mem_pool(bench: KVBench) -> None:
    """On the CPU there is no pool of memory beside torch's own, and asking for it is no error."""
    bench.expect(
        "maybe_get_custom_mem_pool()", expected=None, got=bench.pool.maybe_get_custom_mem_pool()
    )


@law(
    "transfer.regions",
    Transferable,
    DeclaresRegions,
    check="derive both from one description",
)
def regions(bench: KVBench) -> None:
    """The descriptors, of pages and then of state, are those that follow from the regions."""
    told = exported(bench.pool)
    declared = list(zip(*buf_infos(bench.pool.buffer_regions()), strict=True))
    if told != declared:
        raise LawBroken("the exported regions", expected=str(declared), got=str(told))


def exported(pool: Transferable) -> list[tuple[int, int, int]]:
    """Pointer, length and item length of all regions with bytes: pages, scales, state, tails."""
    state = pool.get_state_buf_infos() if isinstance(pool, StateTransferable) else ((), (), ())
    tails = pool.get_compress_tail_buf_infos() if isinstance(pool, KPoolTail) else ((), (), ())
    further = (*zip(*state, strict=True), *zip(*tails, strict=True))
    return [*by_page(pool), *(entry for entry in further if entry[1])]


def by_page(pool: Transferable) -> list[tuple[int, int, int]]:
    """Those of rows, and of block scales, which go by the same pages."""
    tables = [pool.get_contiguous_buf_infos()]
    if isinstance(pool, BlockScaled):
        tables.append(pool.get_kv_scale_buf_infos())
    return [entry for table in tables for entry in zip(*table, strict=True)]


def _orders_otherwise(pool: object) -> bool:
    return supports(pool, DeclaresTraits) and pool.pool_traits.transfer_layout in _OTHER


def _page_bytes(bench: KVBench) -> int:
    rows = sum(map(bench.token_bytes, bench.page_layer_ids)) * bench.request.page_size
    return rows + sum(padding_bytes(region) for region in _declared(bench.pool))


def _declared(pool: object) -> tuple[BufferRegion, ...]:
    return pool.buffer_regions() if isinstance(pool, DeclaresRegions) else ()


def padding_bytes(region: BufferRegion) -> int:
    """Bytes of a page that the region says are nothing's, in all its layers."""
    padding = [prod(f.shape) * f.element_bytes for f in region.fields if f.name == "padding"]
    return len(region.bases) * sum(padding)


def _fill_pages(bench: KVBench) -> None:
    loc = torch.arange(1, bench.slots)
    for layer_id in bench.layer_ids:
        k, v = bench.pair(bench.slots, salt=layer_id, layer_id=layer_id)
        bench.write(loc, k[1:], v[1:], layer_id)


def _filled(bench: KVBench, side: Side, layer_id: int) -> torch.Tensor:
    pair = bench.pair(bench.slots, salt=layer_id, layer_id=layer_id)
    filled = torch.zeros(bench.slots_in(layer_id), *bench.row_shape(side, layer_id))
    for loc, row in enumerate(pair[0 if side == "key" else 1]):
        if slot := bench.slot_of(loc, layer_id):
            filled[slot] = row.float()
    return filled
