"""Rows that come with state: one slot each, its own, which outlives the row until it is freed."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import StateRequestPool

from ..account_bench import refused
from ..law import law
from ..state_bench import named_tensors
from ..state_rows_bench import StateRowsBench

SLOTS = ("request.rows", "state-rows.slots")


@law(
    "state-rows.slots",
    StateRequestPool,
    needs=("request.rows",),
    check="take a slot for every request that has none, and enter it for the row",
)
def slots(bench: StateRowsBench) -> None:
    """Every row has state slots of its own, as many as were asked for; row 0 has slot 0."""
    pool, asked = bench.pool, bench.asked
    bench.expect_free("as built", asked.state.size)
    initial = asked.mamba_initial_tracking_slots
    got = (pool.enable_mamba_extra_buffer, pool.mamba_initial_tracking_slots)
    told = "enable_mamba_extra_buffer, mamba_initial_tracking_slots"
    bench.expect(told, expected=(initial > 0, initial), got=got)
    held = bench.requests(2)
    bench.alloc(held[:1])
    bench.alloc(held)
    owned = bench.owned(held)
    bench.expect("state slots of 2 requests", expected=2 * bench.each, got=len(owned))
    bench.expect_distinct("alloc(1 request), alloc(2, it among them)", owned)
    rows = torch.tensor([[0, held[1].row], [held[0].row, 0]])
    found = bench.indices(rows)
    right = torch.tensor([[0, owned[1]], [owned[0], 0]])
    bench.expect_same("get_mamba_indices of 2 x 2 rows", found, right, "row")
    physical = pool.translate_mamba_indices(found)
    bench.expect("translate_mamba_indices: shape", expected=rows.shape, got=physical.shape)


@law(
    "state-rows.all-or-nothing",
    StateRequestPool,
    needs=SLOTS,
    check="count the state slots of the whole batch before the first row is taken",
)
def all_or_nothing(bench: StateRowsBench) -> None:
    """When state slots are too few, None comes back, and no row, slot or request has changed."""
    pool, held = bench.pool, bench.requests(1)
    bench.alloc(held)
    taken = pool.mamba_allocator.alloc(bench.free_slots() - 2 * bench.each + 1)
    before = (pool.available_size(), bench.free_slots(), pool.req_generation.tolist())
    waiting = bench.requests(2)
    call = f"alloc(1 that has both, 2 that have none), {bench.free_slots()} state slots free"
    bench.expect(call, expected=None, got=pool.alloc([*held, *waiting]))
    after = (pool.available_size(), bench.free_slots(), pool.req_generation.tolist())
    bench.expect(f"{call}; rows, state slots, generations", expected=before, got=after)
    kept = {(r.kv.req_pool_idx, r.kv.mamba_pool_idx) for r in waiting}
    bench.expect(f"{call}; rows and slots of the two", expected={(None, None)}, got=kept)
    bench.alloc([*held, waiting[0]])
    every = [*bench.owned([*held, waiting[0]]), *taken.tolist()]
    bench.expect_distinct("alloc of one of the two", every)


@law(
    "state-rows.outlives",
    StateRequestPool,
    needs=SLOTS,
    check="free takes the row back only; free_mamba_cache the slots, also without a row, once",
)
def outlives(bench: StateRowsBench) -> None:
    """A slot stays its request's without the row, until free_mamba_cache, which frees it once."""
    pool, size = bench.pool, bench.asked.state.size
    other, first, later = bench.requests(3)
    bench.alloc([other, first])
    mine = bench.owned([first])
    pool.free(first)
    call = "alloc, free of the row"
    bench.expect_free(call, size - 2 * bench.each)
    bench.alloc([later])
    bench.expect_distinct(f"{call}, alloc", [*bench.owned([other, later]), *mine])
    pool.free_mamba_cache(first)
    bench.expect_distinct(f"{call}, free_mamba_cache", bench.owned([other, later]))
    refused(lambda: pool.free_mamba_cache(first))
    bench.expect_distinct(f"{call}, free_mamba_cache twice", bench.owned([other, later]))
    pool.free_mamba_cache(later)
    pool.free(later)
    bench.expect_distinct("free_mamba_cache before free", bench.owned([other]))


@law(
    "state-rows.keeps",
    StateRequestPool,
    needs=SLOTS,
    check="a request that has mamba_pool_idx is given no other; enter it for its new row",
)
def keeps(bench: StateRowsBench) -> None:
    """A request keeps the slot it has, be it copied from a prefix or left from an earlier row."""
    pool = bench.pool
    forked, returning = bench.requests(2)
    bench.alloc([returning])
    before = bench.owned([returning])
    pool.free(returning)
    forked.kv.mamba_pool_idx = pool.mamba_allocator.alloc(1)[0]
    slot = int(forked.kv.mamba_pool_idx)
    rows = bench.alloc([forked, returning])
    call = "alloc of one with a slot of its own, and one whose row was freed"
    got = bench.at(rows)
    bench.expect(f"{call}; get_mamba_indices", expected=[slot, before[0]], got=got)
    bench.expect_distinct(call, bench.owned([forked, returning]))
    kept = sorted(bench.owned([returning]))
    bench.expect(f"{call}; slots of the second", expected=sorted(before), got=kept)


@law(
    "state-rows.snapshot",
    StateRequestPool,
    applies=lambda request: request.mamba_initial_tracking_slots > 0,
    needs=SLOTS,
    check="free the state slot and every snapshot slot but the kept one, checking it first",
)
def snapshot(bench: StateRowsBench) -> None:
    """The snapshot slot at the kept position stays owned, all others are free; or none is."""
    pool, positions = bench.pool, bench.asked.mamba_ping_pong_track_buffer_size
    others = [pool.get_mamba_ping_pong_other_idx(at) for at in range(positions)]
    bench.expect("the position after each", expected=[*range(positions)][::-1], got=others)
    kept: list[int] = []
    for keep in (None, *range(bench.asked.mamba_initial_tracking_slots)):
        one = bench.requests(1)[0]
        bench.alloc([one])
        snapshots = bench.snapshots(one)
        call = f"free_mamba_cache(request, {keep})"
        wrong = refused(partial(pool.free_mamba_cache, one, 7))
        bench.expect("free_mamba_cache(request, 7), refused", expected=True, got=wrong)
        bench.expect_distinct("after it", [*bench.owned([one]), *kept])
        pool.free_mamba_cache(one, keep)
        kept += [] if keep is None else [snapshots[keep]]
        bench.expect_distinct(call, kept)
        bench.expect(f"{call}; snapshot slots", expected=[], got=bench.snapshots(one))
        pool.free(one)
    bench.expect_distinct("of all that were freed", kept)


@law(
    "state-rows.clear",
    StateRequestPool,
    needs=SLOTS,
    check="clear the allocator of state slots with the rows, and what rows are mapped to",
)
def clear(bench: StateRowsBench) -> None:
    """After clear all state slots are free too, and no row has one."""
    held = bench.requests(2)
    rows = bench.alloc(held)
    bench.pool.clear()
    bench.expect_distinct("alloc, clear", [])
    bench.expect("get_mamba_indices, cleared", expected=[0, 0], got=bench.at(rows))
    again = bench.requests(2)
    bench.alloc(again)
    bench.expect_distinct("alloc, clear, alloc", bench.owned(again))


@law(
    "state-rows.layers",
    StateRequestPool,
    needs=SLOTS,
    check="look the position of the layer up by its global id, before the pool is asked",
)
def layers(bench: StateRowsBench) -> None:
    """A layer's state is found by its global id, and aliases; other ids are refused."""
    ids = bench.asked.state.mamba_layer_ids
    for at, layer_id in enumerate(ids):
        bench.state.fill(1, 0.0)
        for name, tensor in named_tensors(bench.pool.mamba2_layer_cache(layer_id)).items():
            if "intermediate" not in name and tensor.numel():
                tensor[1] = 3.0
        filled = [
            position
            for position in range(len(ids))
            if all(bool((t[position, 1] == 3.0).all()) for t in bench.state.tensors().values())
        ]
        call = f"mamba2_layer_cache({layer_id}), slot 1 filled; layers that hold it"
        bench.expect(call, expected=[at], got=filled)
    for wrong in (min(ids) - 1, max(ids) + 1, max(ids) + 99):
        bench.expect_raises(
            f"mamba2_layer_cache({wrong})",
            partial(bench.pool.mamba2_layer_cache, wrong),
            ValueError,
        )


@law(
    "state-rows.fork",
    StateRequestPool,
    needs=("state-rows.keeps",),
    check="rows and the allocator name slots alike; translated, they are those of the state pool",
)
def fork(bench: StateRowsBench) -> None:
    """State copied to another request's slot is that request's; the source keeps its own."""
    pool = bench.pool
    source, forked = bench.requests(2)
    bench.alloc([source])
    forked.kv.mamba_pool_idx = pool.mamba_allocator.alloc(1)[0]
    bench.alloc([forked])
    indices = bench.indices(torch.tensor([source.row, forked.row]))
    src, dst = (int(slot) for slot in pool.translate_mamba_indices(indices))
    bench.state.fill(src, 5.0)
    bench.state.fill(dst, 0.0)
    expected = bench.state.bytes_of(src)
    pool.mamba_pool.copy_from(torch.tensor([src]), torch.tensor([dst]))
    bench.state.expect_slot("copy_from, of the forked row", dst, expected, "as the source")
    bench.state.fill(dst, 7.0)
    bench.state.expect_slot("the fork writes on; of the source row", src, expected, "as it was")
