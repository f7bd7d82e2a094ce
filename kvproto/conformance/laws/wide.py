"""Pools beyond what 32-bit arithmetic reaches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import torch

from kvproto.protocols import Declined, DSALeafRequest, IndexerCapable, KVLeaf, Transferable

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..latent_bench import LatentBench, has_index_keys
from ..law import has_layers, law
from ..lazy_memory import LazyZeros
from ..not_asked import NotAsked
from .leaf import INDEX_DTYPES, OWNED

B = TypeVar("B", bound=KVBench)

_REACH = 1 << 31
_MAPPED = "buffers far larger than memory are mapped on first use"


@law(
    "leaf.wide-address",
    KVLeaf,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    host_only=_MAPPED,
    check="multiply a location by the row's size in 64 bits, whatever integer type it comes in",
)
def wide_address(bench: KVBench) -> None:
    """Rows past 2**31 elements of a buffer are stored in their place, for int32 locations too."""
    narrowest = min(map(bench.stored_elements, bench.sides))
    wide = _wide(bench, narrowest)
    slots = [wide.slots - 1, wide.slots // 2, 1]
    for salt, dtype in enumerate(INDEX_DTYPES):
        pair = wide.pair(3, salt)
        wide.write(torch.tensor(slots, dtype=dtype), *pair)
        for side, rows in zip(wide.sides, pair, strict=False):
            got = torch.stack([wide.oracle.row(side, wide.layer_ids[0], s) for s in slots])
            call = f"set_kv_buffer(loc={slots} {dtype}) on {wide.slots} rows"
            bench.expect_same(call, got.float(), rows.float(), f"{side} row")


@law(
    "indexer.wide-address",
    IndexerCapable,
    KVLeaf,
    applies=has_index_keys,
    needs=OWNED,
    hazardous=True,
    host_only=_MAPPED,
    check="multiply a page by its bytes in 64 bits, whatever integer type it comes in",
)
def wide_index(bench: LatentBench) -> None:
    """Index keys past 2**31 bytes are stored and gathered in their place, for int32 pages too."""
    wide = _wide(bench, max(1, (bench.index_head_dim + 4) // bench.index_kpool))
    page, layer_id = wide.index_page_size, wide.layer_ids[0]
    last = wide.index_slots - 1
    for salt, dtype in enumerate(INDEX_DTYPES):
        keys, scales = wide.index_rows(1, salt)
        wide.write_index(torch.tensor([last], dtype=dtype), keys, scales)
        key, scale = wide.oracle.index_at(layer_id, last)
        call = f"set_index_k_scale_buffer(loc=[{last}] {dtype}) on {wide.index_slots} slots"
        bench.expect_same(call, key.unsqueeze(0), keys.view(torch.uint8), "key")
        bench.expect(call, expected=float(scales[0]), got=scale)
        lens, pages = torch.tensor([page], dtype=dtype), torch.tensor([[last // page]], dtype=dtype)
        gathered, _ = wide.pool.get_index_k_scale_buffer(layer_id, lens, pages, page, page)
        call = f"get_index_k_scale_buffer(page {last // page} {dtype})"
        bench.expect_same(call, gathered[-1:].view(torch.uint8), keys.view(torch.uint8), "key")


@law(
    "transfer.wide-address",
    Transferable,
    applies=has_layers,
    check="return Python integers: a 32-bit number times a page wraps at 2 GiB",
)
def exact_integers(bench: KVBench) -> None:
    """Addresses and lengths are Python integers, which do not wrap when a page is added."""
    for name, part in zip(("ptrs", "lens", "item_lens"), _infos(bench.pool), strict=True):
        kinds = sorted({type(number).__name__ for number in part} - {"int"})
        if kinds:
            raise LawBroken(f"get_contiguous_buf_infos(): {name}", expected="int", got=str(kinds))


def _infos(pool: Transferable) -> tuple[list[int], list[int], list[int]]:
    return pool.get_contiguous_buf_infos()


def _wide(bench: B, narrowest: int) -> B:
    """The bench of a pool of one layer whose narrowest rows reach far enough, in lazy memory.

    :raises NotAsked: where the factory declines so many slots.
    """
    page = bench.request.page_size
    pages = _REACH // (narrowest * page) + 2
    one_layer: dict[str, Any] = {"size": pages * page, "layer_num": 1}
    if isinstance(bench.request, DSALeafRequest):
        one_layer["skip_topk_layers"] = ()
    request = replace(bench.request, **one_layer)
    with LazyZeros():
        pool = bench.build(request)
    if isinstance(pool, Declined):
        raise NotAsked(f"the factory declines {request.size} slots: {pool.reason}")
    return bench.sibling(pool, request)
