"""Full slots beside rings: what is lent, and how the window is counted."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import SWAAllocator

from ..account_bench import slots
from ..law import law
from ..ring_bench import RingAllocBench
from ..row_bench import RequestStub
from .alloc import ACCOUNTS
from .sync_free import run_traced, traced, watched

COUNTED = (*ACCOUNTS, "ring-alloc.rows")


@law(
    "ring-alloc.rows",
    SWAAllocator,
    needs=ACCOUNTS,
    check="rings in whole pages times the rows of the table, all of them and those that are free",
)
def rows(bench: RingAllocBench) -> None:
    """The window has the rings of all rows; those of free rows are free, however many tokens."""
    pool, table = bench.pool, bench.pool.req_to_token_pool
    sizes = (bench.request.size, bench.rows * bench.cost)
    bench.expect("size_full, size_swa", expected=sizes, got=(pool.size_full, pool.size_swa))
    held = bench.take(bench.usable)
    bench.expect("swa_available_size(), no row lent", expected=sizes[1], got=bench.window_room())
    requests = [RequestStub() for _ in range(2)]
    table.alloc(requests)
    left = (bench.rows - 2) * bench.cost
    bench.expect("swa_available_size(), 2 rows lent", expected=left, got=bench.window_room())
    bench.free(held)
    bench.expect("the same, all slots freed", expected=left, got=bench.window_room())
    table.free(requests[0])
    left += bench.cost
    bench.expect("swa_available_size(), 1 row lent", expected=left, got=bench.window_room())
    got = (pool.available_size(), pool.full_available_size())
    whole = (bench.request.size,) * 2
    bench.expect("available_size(), full_available_size()", expected=whole, got=got)


@law(
    "ring-alloc.no-peers",
    SWAAllocator,
    needs=COUNTED,
    check="leave the window alone: no table, and nothing to free",
)
def no_peers(bench: RingAllocBench) -> None:
    """No slot has a window peer, a tail's neither; freeing the window side frees nothing."""
    size = bench.page_size
    window = bench.window_room()
    lent = [bench.take(2 * size), bench.tailed(size + 1, size), bench.tailed(2 * size, 0)]
    call = f"alloc({2 * size}), two prompts with tails"
    bench.expect_owned(call, *lent)
    every = [slot for row in lent for slot in row]
    bench.expect(f"{call}; peers", expected=[0] * len(every), got=bench.peers(every))
    for door in (bench.pool.free_swa, partial(bench.pool.free_swa_segment, start_pos=0)):
        for row in lent:
            door(slots(row))
    bench.expect_room(f"{call}, free_swa, free_swa_segment", lent)
    bench.pool.free_full(slots(lent[0]))
    bench.pool.free_full_segment(slots(lent[1]), start_pos=0)
    bench.expect("swa_available_size()", expected=window, got=bench.window_room())
    bench.expect_only_owned(f"{call}, free_full, free_full_segment", lent[2])


@law(
    "ring-alloc.sync-free",
    SWAAllocator,
    needs=COUNTED,
    check="0 or -1 by clamp; frees of the window side return at once",
)
def sync_free(bench: RingAllocBench) -> None:
    """Translation and segment frees run no operation whose shape or flow depends on the slots."""
    bench = watched(bench)
    loc = torch.tensor([[0, -1, -9], [*bench.lendable][:1] * 3])
    got = traced("translate_loc_from_full_to_swa", lambda: _translate(bench, loc))
    right = torch.where(loc < 0, got.clamp(-1, 0), 0)
    bench.expect_same("translate_loc_from_full_to_swa", got, right, "row")
    row = slots(bench.take(bench.page_size))
    free = bench.pool
    run_traced("free_swa_segment", lambda: free.free_swa_segment(row, start_pos=0))
    run_traced("free_full_segment", lambda: free.free_full_segment(row, start_pos=0))
    bench.expect_only_owned("free_swa_segment, free_full_segment")


def _translate(bench: RingAllocBench, loc: torch.Tensor) -> torch.Tensor:
    found: torch.Tensor = bench.pool.translate_loc_from_full_to_swa(loc)
    return found
