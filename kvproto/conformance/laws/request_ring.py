"""Window layers in a ring per request: where a position is, and what a row leaves behind."""

from __future__ import annotations

from torch import Tensor

from kvproto.protocols import KVPool, RequestRingSWA

from ..broken import LawBroken
from ..kv_bench import Side
from ..law import law
from ..memory import peek, poke
from ..ring_bench import RingBench
from .leaf import OWNED

PLACED = (*OWNED, "leaf.write-read", "request-ring.places")


@law(
    "request-ring.values",
    RequestRingSWA,
    check="the ring as asked for; no window object beside it, and no pages to budget",
)
def values(bench: RingBench) -> None:
    """The pool says that it keeps rings, how large, and for as many rows as were asked for."""
    pool = bench.pool
    bench.expect("swa_req_ring_size", expected=bench.ring, got=pool.swa_req_ring_size)
    bench.expect("request_window", expected=None, got=pool.request_window)
    bench.expect("needs_paged_swa_allocator", expected=False, got=pool.needs_paged_swa_allocator)
    if pool.swa_valid_from is not None:
        marks = tuple(pool.swa_valid_from.shape)
        bench.expect("swa_valid_from", expected=(bench.whole.num_req_slots,), got=marks)
    table = getattr(pool, "full_to_swa_index_mapping", None)
    bench.expect("full_to_swa_index_mapping", expected=None, got=table)


@law(
    "request-ring.places",
    RequestRingSWA,
    KVPool,
    needs=(*OWNED, "leaf.write-read"),
    check="send swa_loc to window layers and loc to full ones, neither through a table",
)
def places(bench: RingBench) -> None:
    """Full layers keep a token at its full location, window layers in its row's ring."""
    ring, last = bench.ring, bench.whole.num_req_slots - 1
    turns = [(last, 0), (last, ring - 1), (1, ring + 1), (last, 2 * ring)]
    loc = [bench.full.slots - 1 - i for i in range(len(turns))]
    for salt, some in ((1, slice(0, 3)), (2, slice(3, 4))):
        bench.write_at(turns[some], loc[some], salt)
        call = "set_kv_buffer(full and ring locations)"
        for layer_id in bench.layer_ids:
            windowed = layer_id in bench.window_ids
            slots = [bench.ring_slot(*turn) for turn in turns] if windowed else loc
            _expect_rows(bench, call, layer_id, slots[some], salt)
    kept = [bench.ring_slot(*turn) for turn in turns[1:3]]
    for layer_id in bench.window_ids:
        k, v = bench.pair(3, 1, layer_id)
        for side, rows in zip(bench.sides, (k, v), strict=False):
            found = bench.stored(side, layer_id)[kept]
            call = "after position 2 * ring replaced position 0"
            bench.expect_same(call, found, rows[1:3].float(), f"layer {layer_id}, {side} row")


@law(
    "request-ring.clear",
    RequestRingSWA,
    KVPool,
    needs=PLACED,
    check="zero the ring of that row in every window layer, and its mark; nothing of another row",
)
def clear(bench: RingBench) -> None:
    """What a row leaves behind is reset in every window layer; other rows and full layers stay."""
    bench.write_all_slots()
    row = bench.whole.num_req_slots - 1
    before: dict[tuple[int, Side], Tensor] = {
        (layer_id, side): bench.stored(side, layer_id).clone()
        for layer_id in bench.layer_ids
        for side in bench.sides
    }
    marks = bench.pool.swa_valid_from
    if marks is not None:
        marks.fill_(5)
    bench.pool.clear_request_scoped_state(row)
    ring = slice(row * bench.ring, (row + 1) * bench.ring)
    for (layer_id, side), expected in before.items():
        if layer_id in bench.window_ids:
            expected[ring] = 0
        call = f"clear_request_scoped_state({row})"
        found = bench.stored(side, layer_id)
        bench.expect_same(call, found, expected, f"layer {layer_id}, {side} row")
    if marks is not None:
        told = [0 if each == row else 5 for each in range(len(marks))]
        got = [int(mark) for mark in marks]
        bench.expect("swa_valid_from, after it", expected=told, got=got)


@law(
    "request-ring.transfer",
    RequestRingSWA,
    KVPool,
    needs=PLACED,
    check="one item per request row: the page item of each region times the pages of a ring",
)
def transfer(bench: RingBench) -> None:
    """Item `r` of each region is what row `r` keeps there: copied to a row, it is that row's."""
    ptrs, lens, item_lens = bench.pool.get_request_state_buf_infos()
    rows = bench.whole.num_req_slots
    bench.expect("items of each region", expected=[rows] * len(ptrs), got=_items(lens, item_lens))
    bench.write_all_slots()
    source, target = 1, rows - 1
    for pointer, item in zip(ptrs, item_lens, strict=True):
        poke(pointer + target * item, peek(pointer + source * item, item))
    call = f"item {source} of each region copied to item {target}"
    ring = bench.ring
    for layer_id in bench.window_ids:
        for side in bench.sides:
            found = bench.stored(side, layer_id)
            here, there = (found[r * ring : (r + 1) * ring] for r in (source, target))
            if source != target:
                bench.expect_same(call, there, here, f"layer {layer_id}, {side} row of the ring")


def _items(lens: list[int], item_lens: list[int]) -> list[int]:
    for length, item in zip(lens, item_lens, strict=True):
        if item < 1 or length % item:
            got = f"len {length}, item_len {item}"
            raise LawBroken("get_request_state_buf_infos()", expected="whole items", got=got)
    return [length // item for length, item in zip(lens, item_lens, strict=True)]


def _expect_rows(bench: RingBench, call: str, layer_id: int, slots: list[int], salt: int) -> None:
    pair = bench.pair(len(slots), salt, layer_id)
    for side, rows in zip(bench.sides, pair, strict=False):
        found = bench.stored(side, layer_id)[slots]
        bench.expect_same(call, found, rows.float(), f"layer {layer_id}, {side} row")
