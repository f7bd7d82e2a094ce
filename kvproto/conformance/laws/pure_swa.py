"""Slots of a model of window layers alone: each is its own peer, and goes with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import SWAAllocator

from ..account_bench import slots
from ..broken import LawBroken
from ..law import law
from ..window_bench import PureBench
from .alloc import ACCOUNTS, INDEX_DTYPES
from .sync_free import run_traced, traced, watched

EVICTING = ("free_swa", "free_swa_segment")


@law(
    "pure-swa.identity",
    SWAAllocator,
    needs=ACCOUNTS,
    check="enter a slot as its own peer when it is lent, 0 when it is freed",
)
def identity(bench: PureBench) -> None:
    """A lent slot is its own peer and a free one has none; both sides report the one space."""
    size = bench.request.size
    sizes = (bench.pool.size, bench.pool.size_full, bench.pool.size_swa)
    bench.expect("size, size_full, size_swa", expected=(size,) * 3, got=sizes)
    bench.expect_free("as built", size)
    bench.expect("peers, as built", expected=[0] * size, got=bench.all_peers())
    mine, others = bench.take(3), bench.take(2)
    bench.expect_free("alloc(3), alloc(2)", size - 5)
    bench.expect("peers of lent slots", expected=mine + others, got=bench.peers(mine + others))
    bench.free(others)
    every = [slot if slot in mine else 0 for slot in bench.lendable]
    bench.expect("peers of all slots, some freed", expected=every, got=bench.all_peers())
    bench.pool.clear()
    bench.expect("peers, cleared", expected=[0] * size, got=bench.all_peers())


@law(
    "pure-swa.translate",
    SWAAllocator,
    needs=("pure-swa.identity",),
    check="negatives give -1 or 0, in any shape; no mask, no unique, no .item()",
)
def translate(bench: PureBench) -> None:
    """Translation keeps the shape, gives negative slots no other, and waits for no data."""
    slot = bench.take(1)[0]
    through = bench.pool.translate_loc_from_full_to_swa
    for dtype in INDEX_DTYPES:
        given = slots([0, slot, -1, -7, slot, 0], dtype)
        for loc in (given, given.view(2, 3), given[1::3], given[:0], given.view(2, 3).t()):
            call = f"translate_loc_from_full_to_swa({loc} {dtype})"
            got = traced(call, partial(through, loc))
            bench.expect(f"{call}.shape", expected=loc.shape, got=got.shape)
            right = torch.where(loc < 0, got.clamp(-1, 0), loc)
            if not bool((got == right).all()):
                raise LawBroken(call, expected=str(right), got=str(got))


@law(
    "pure-swa.evict",
    SWAAllocator,
    needs=("pure-swa.identity",),
    check="free_swa frees the slot itself; free_full has nothing left to free",
)
def evict(bench: PureBench) -> None:
    """A slot is free once its peer is; what is left to free of its token then frees nothing."""
    size = bench.request.size
    for how in EVICTING:
        for end in ("free_full", "free_full_segment"):
            row = bench.take(3)
            _through(bench, how)(slots(row[:2]))
            call = f"{how}(2 of 3 slots)"
            bench.expect_free(call, size - 1)
            later = bench.take(size - 1)
            _through(bench, end)(slots(row[:2]))
            bench.expect_free(f"{call}, all lent again, {end}(the 2)", 0)
            bench.expect_owned(f"{call}, alloc({size - 1})", row[2:], later)
            bench.pool.clear()


@law(
    "pure-swa.tail",
    SWAAllocator,
    needs=("pure-swa.identity",),
    check="take slots for the tail alone, after they were counted; put 0 before them",
)
def tail(bench: PureBench) -> None:
    """Tokens of the tail get slots, those before it 0, which frees nothing; all or nothing."""
    size = bench.request.size
    for new, length in ((4, 2), (3, 3), (2 * size, 1), (5, 0), (0, 0)):
        call = bench.tail_call([], new, length)
        row = bench.tailed(new, length)
        before, lent = row[: new - length], row[new - length :]
        bench.expect(f"{call}; before the tail", expected=[0] * len(before), got=before)
        bench.expect_owned(call, lent)
        bench.expect_free(call, size - length)
        bench.expect(f"{call}; peers", expected=row, got=bench.peers(row))
        bench.free(row)
        bench.expect_only_owned(f"{call}, free of the row")
    held = bench.take(size - 1)
    call = bench.tail_call([], 3, 2)
    bench.expect(f"{call}, 1 slot free", expected=None, got=bench.tail([], 3, 2))
    bench.expect_only_owned(f"{call}, which did not fit", held)


@law(
    "pure-swa.sync-free",
    SWAAllocator,
    needs=("pure-swa.evict",),
    check="clamp and fill; a filter of the slots above 0 makes the host wait",
)
def sync_free(bench: PureBench) -> None:
    """Frees of segments, of either side, run no operation that depends on the slots."""
    bench = watched(bench)
    row, other = slots(bench.take(2)), slots(bench.take(1))
    run_traced("free_swa_segment", lambda: bench.pool.free_swa_segment(row, start_pos=0))
    run_traced("free_full_segment", lambda: bench.pool.free_full_segment(row, start_pos=0))
    run_traced("free_segment", lambda: bench.pool.free_segment(other, start_pos=0))
    bench.expect_only_owned("free_swa_segment, free_full_segment, free_segment")


def _through(bench: PureBench, door: str) -> Callable[[Tensor], object]:
    free = getattr(bench.pool, door)
    return (lambda row: free(row, start_pos=0)) if "segment" in door else free
