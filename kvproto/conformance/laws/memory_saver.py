"""Buffers that a memory saver can release and bring back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from kvproto.protocols import (
    AllocatorRequest,
    DeclaresRegions,
    Declined,
    KVLeaf,
    RequestPool,
    Resumable,
    SizeReporting,
    StatePool,
    StateRequestPoolRequest,
    StateSlotsRequest,
    StateTransferable,
    SWAAllocatorRequest,
    Transferable,
    supports,
)

from ..bench import Bench
from ..broken import LawBroken
from ..kv_bench import KVBench
from ..latent_bench import LatentBench
from ..law import has_layers, law
from ..not_asked import NotAsked
from ..pausable_memory import pausable_memory
from ..row_bench import RowsBench
from ..saver import RecordedAllocations, recorded_allocations
from ..state_bench import StateBench, named_tensors
from ..storage import owned_storages
from .leaf import OWNED

_TAG = "kv_cache"
_STAND_IN = "the stand-in of the saver takes away no other"
_REGION = "allocate in torch_memory_saver.region(tag='kv_cache'), every buffer, nothing else"
_ASKED: dict[type, tuple[str, ...]] = {
    KVLeaf: ("size", "page_size", "layer_num", "start_layer", "end_layer"),
    SizeReporting: ("mem_usage", "get_kv_size_bytes"),
    Transferable: ("get_contiguous_buf_infos",),
    StateTransferable: ("get_state_buf_infos",),
    DeclaresRegions: ("buffer_regions",),
}
"""What may be asked for while there is no memory."""


@law("memory-saver.region", KVLeaf, check=_REGION)
def region(bench: KVBench) -> None:
    """With the saver on, all the pool's buffers and nothing else are allocated in its region."""
    with recorded_allocations() as recorded:
        pool = _saved(bench)
    _expect_inside(set(owned_storages(pool, bench.slots)), recorded)


@law("memory-saver.region-state", StatePool, check=_REGION)
def region_state(bench: StateBench) -> None:
    """With the saver on, all state tensors, scratch too, and nothing else are in its region."""
    with recorded_allocations() as recorded:
        pool = _saved(bench)
    tensors = [t for t in named_tensors(pool.mamba_cache).values() if t.numel()]
    _expect_inside({t.untyped_storage().data_ptr() for t in tensors}, recorded)


@law(
    "memory-saver.books",
    applies=lambda r: isinstance(r, AllocatorRequest | SWAAllocatorRequest | StateSlotsRequest),
    check="allocate free lists and tables outside the region: they are used while it is paused",
)
def books(bench: Bench) -> None:
    """Who lends slots keeps its books outside the region of the saver."""
    with recorded_allocations() as recorded:
        bench.another()
    _expect_inside(set(), recorded)


@law(
    "memory-saver.paused",
    KVLeaf,
    hazardous=True,
    needs=("memory-saver.region",),
    host_only=_STAND_IN,
    check="keep addresses and sizes as numbers; read no buffer to tell them",
)
def paused(bench: KVBench) -> None:
    """Paused, a pool tells geometry, sizes and addresses as before, without touching a buffer."""
    with pausable_memory() as memory:
        pool = _saved(bench)
        before = _told(pool)
        memory.pause(_TAG)
        bench.expect("what the paused pool tells", expected=before, got=_told(pool))
        memory.resume(_TAG)
        bench.expect("what the resumed pool tells", expected=before, got=_told(pool))


@law(
    "memory-saver.paused-rows",
    RequestPool,
    hazardous=True,
    host_only=_STAND_IN,
    check="take rows back by list and set; the table is paused when engines flush",
)
def paused_rows(bench: RowsBench) -> None:
    """Paused, a request table takes rows back, one by one and all, without touching its entries."""
    with pausable_memory() as memory:
        pool = _saved(bench)
        held = bench.requests(2)
        pool.alloc(held)
        memory.pause(_TAG)
        pool.free(held[0])
        pool.clear()
        rows = len(bench.lendable)
        bench.expect("clear(), paused; available_size()", expected=rows, got=pool.available_size())
        memory.resume(_TAG)


@law(
    "memory-saver.resume",
    Resumable,
    KVLeaf,
    applies=has_layers,
    needs=(*OWNED, "leaf.write-read"),
    host_only=_STAND_IN,
    check="zero slot 0 of each layer's keys, values, scales and index keys, and no other slot",
)
def resume(bench: KVBench) -> None:
    """After a resume slot 0 is restored to zero everywhere, and what was written since is kept."""
    with pausable_memory() as memory:
        pool = _saved(bench)
        memory.pause(_TAG)
        memory.resume(_TAG)
    resumed = bench.sibling(pool)
    written = {i: bench.pair(1, salt=i) for i in bench.layer_ids}
    for layer_id, pair in written.items():
        resumed.write(torch.tensor([2]), *pair, layer_id)
    pool.restore_reserved()
    for layer_id, pair in written.items():
        for side, rows in zip(bench.sides, pair, strict=False):
            found = resumed.stored(side, layer_id)
            call, zero = "restore_reserved() after a resume", torch.zeros_like(found[:1])
            bench.expect_same(call, found[:1], zero, f"layer {layer_id}, {side} of slot")
            bench.expect_same(call, found[2:3], rows.float(), f"layer {layer_id}, {side} row 2 +")
    if isinstance(resumed, LatentBench) and resumed.index_head_dim:
        for layer_id in resumed.index_layers:
            key, scale = resumed.oracle.index_at(layer_id, 0)
            got = bool(key.any()), scale
            bench.expect("index key of slot 0, resumed", expected=(False, 0.0), got=got)


@law(
    "memory-saver.resume-state",
    Resumable,
    StatePool,
    needs=("state.tensors",),
    host_only=_STAND_IN,
    check="zero the reserved slot of every tensor in every layer",
)
def resume_state(bench: StateBench) -> None:
    """After a resume the reserved state slot is restored to zero; the other slots are kept."""
    for slot in range(bench.slots):
        bench.fill(slot, float("nan"))
    kept = bench.bytes_of(1)
    bench.pool.restore_reserved()
    bench.expect_zero("restore_reserved() after a resume", 0)
    bench.expect_slot("restore_reserved() after a resume", 1, kept, "left alone")


def _saved(bench: Bench) -> Any:
    """A pool built with the saver on.

    :raises NotAsked: where the factory declines that.
    """
    pool = bench.build(_with_saver(bench.request))
    if isinstance(pool, Declined):
        raise NotAsked(f"the factory declines enable_memory_saver=True: {pool.reason}")
    return pool


def _with_saver(request: Any) -> Any:
    if isinstance(request, StateRequestPoolRequest):
        rows, state = _with_saver(request.rows), _with_saver(request.state)
        return replace(request, rows=rows, state=state)
    return replace(request, enable_memory_saver=True)


def _told(pool: object) -> dict[str, str]:
    """In text, so that tensors among the answers are seen by their values."""
    told: dict[str, str] = {}
    for capability, members in _ASKED.items():
        if supports(pool, capability):
            for name in members:
                value: Any = getattr(pool, name)
                told[name] = str(value() if callable(value) else value)
    return told


def _expect_inside(owned: set[int], recorded: RecordedAllocations) -> None:
    inside = recorded.within(_TAG)
    for what, found in (
        (f"buffers allocated outside a region tagged {_TAG}", owned - inside),
        (f"other allocations inside a region tagged {_TAG}", inside - owned),
    ):
        if found:
            raise LawBroken(
                f"what is built with enable_memory_saver=True: {what}",
                expected="none",
                got=f"{len(found)}, beside {len(owned & inside)} buffers inside",
            )
