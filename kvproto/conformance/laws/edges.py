"""Calls at the edge of what contracts allow: padding, ids out of range, parts of pages, zeros."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import torch

from kvproto.protocols import (
    KVPool,
    MLALatent,
    PagedAllocator,
    RequestPool,
    SlotAllocator,
    StatePool,
    SWAAllocator,
)

from ..account_bench import REFUSALS, AllocBench, refused, slots
from ..broken import LawBroken
from ..latent_bench import LatentBench, is_packed
from ..law import has_layers, law
from ..pair_bench import PairBench
from ..row_bench import RowsBench
from ..state_bench import StateBench
from .alloc import ACCOUNTS
from .state import TENSORS
from .swa_alloc import MAPPED


@law(
    "state.negative-slots",
    StatePool,
    needs=TENSORS,
    check="drop slots below 0 before indexing: -1 is the last slot to torch",
)
def negative_slots(bench: StateBench) -> None:
    """Slots below 0 are padding: clearing them, or copying to them, changes no slot."""
    for slot in range(1, bench.slots):
        bench.fill(slot, float(slot))
    held = {slot: bench.bytes_of(slot) for slot in range(bench.slots)}
    one = torch.tensor([1])
    for below in (-1, -bench.slots):
        lost, call = torch.tensor([below]), f"clear_slots([{below}]), copy_from([1], [{below}])"
        with suppress(ValueError, IndexError):  # to refuse is as good as to drop
            bench.pool.clear_slots(lost)
        with suppress(ValueError, IndexError):
            bench.pool.copy_from(one, lost)
        for slot, was in held.items():
            bench.expect_slot(call, slot, was, "as it was")


@law(
    "state.layer-range",
    StatePool,
    needs=TENSORS,
    check="compare the position with the number of layers: -1 is the last layer to Python",
)
def layer_range(bench: StateBench) -> None:
    """The position of no layer raises, instead of answering with another layer."""
    for position in (-1, bench.layers):
        bench.expect_raises(
            f"mamba2_layer_cache({position}) of {bench.layers} layers",
            partial(bench.pool.mamba2_layer_cache, position),
            ValueError,
            IndexError,
            KeyError,
        )


@law(
    "request.named-twice",
    RequestPool,
    needs=("request.rows",),
    check="look at each request once: a row for its second name is lost",
)
def named_twice(bench: RowsBench) -> None:
    """A request that is named twice in one call gets one row, and none is lost."""
    one, count = bench.requests(1)[0], len(bench.lendable)
    rows = bench.pool.alloc([one, one])
    bench.expect("available_size(), one row owned", expected=count - 1, got=_left(bench))
    bench.expect("alloc([one, one])", expected=[one.kv.req_pool_idx] * 2, got=list(rows or ()))


@law(
    "alloc.part-of-a-page",
    SlotAllocator,
    needs=ACCOUNTS,
    applies=lambda request: request.page_size > 1,
    check="raise ValueError for a need that is not whole pages or negative, before one is taken",
)
def part_of_a_page(bench: AllocBench) -> None:
    """A need inside a page, or below 0, is refused; no other number of slots is ever returned."""
    for need in (bench.page_size + 1, -bench.page_size):
        _expect_refused(bench, need)


def _expect_refused(bench: AllocBench, need: int) -> None:
    before = bench.pool.available_size()
    try:
        given = bench.pool.alloc(need)
    except REFUSALS:
        given = None
    if given is not None and len(given) != need:
        raise LawBroken(
            f"alloc({need})", expected=f"{need} slots, or an error", got=f"{len(given)}"
        )
    if given is None:
        bench.expect("available_size()", expected=before, got=bench.pool.available_size())


@law(
    "swa-alloc.free-full",
    SWAAllocator,
    PagedAllocator,
    needs=MAPPED,
    check="free the peers that are left with their full slots, or refuse before either is freed",
)
def free_full(bench: PairBench) -> None:
    """Freeing full slots loses no window slot: peers that are left go along, or it is refused."""
    row, whole = bench.take(2 * bench.page_size), bench.asked.size_swa
    if refused(partial(bench.pool.free_full, slots(row))):
        bench.free(row)
    bench.expect(
        "swa_available_size(), after free_full of all there was",
        expected=whole,
        got=bench.pool.swa_available_size(),
    )


@law(
    "mla.packed-zeros",
    MLALatent,
    KVPool,
    applies=lambda request: has_layers(request) and is_packed(request),
    check="a block without magnitude has no scale to divide by: store zeros for it",
)
def packed_zeros(bench: LatentBench) -> None:
    """A row of zeros is stored as zero bytes, whatever its scales are, also over another row."""
    width, loc = bench.row_shape("key")[1], torch.tensor([1])
    bench.write_parts(loc, *bench.split(torch.ones(1, 1, width, dtype=torch.bfloat16)))
    bench.write_parts(loc, *bench.split(torch.zeros(1, 1, width, dtype=torch.bfloat16)))
    rank = bench.asked.kv_lora_rank
    row = bench.oracle.stored_bytes("key", bench.layer_ids[0])[1].flatten()
    bench.expect("nonzero bytes of latents", expected=0, got=int(row[:rank].count_nonzero()))


def _left(bench: RowsBench) -> int:
    left: int = bench.pool.available_size()
    return left
