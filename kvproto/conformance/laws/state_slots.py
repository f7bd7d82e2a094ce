"""Slots of recurrent state: one a request, lent one by one or in a batch."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import StateSlotAllocator

from ..account_bench import refused
from ..law import law
from ..row_bench import SlotsBench

ACCOUNTS = ("state-slots.exhaust",)


@law(
    "state-slots.exhaust",
    StateSlotAllocator,
    check="count slots from 1; take what is lent off the free list; clear resets it",
)
def exhaust(bench: SlotsBench) -> None:
    """Every slot from 1 on is lent once and then none; slot 0 never; clear takes all back."""
    size = bench.request.size
    bench.expect("size", expected=size, got=bench.pool.size)
    for turn in ("as built", "after all were freed", "after clear"):
        available = bench.pool.available_size()
        bench.expect(f"available_size(), {turn}", expected=size, got=available)
        plannable = bench.pool.schedulable_available_size()
        bench.expect("schedulable <= available", expected=True, got=plannable <= available)
        row = [*bench.take(2), *bench.take(size - 2)]
        bench.expect("all slots", expected=list(range(1, size + 1)), got=sorted(row))
        bench.expect("alloc(1), all owned", expected=None, got=bench.alloc(1))
        bench.expect("alloc(0)", expected=[], got=bench.alloc(0))
        bench.random.shuffle(row)
        bench.free(row) if turn == "as built" else bench.pool.clear()


@law(
    "state-slots.all-or-nothing",
    StateSlotAllocator,
    needs=ACCOUNTS,
    check="compare the demand with what is free before any slot is taken",
)
def all_or_nothing(bench: SlotsBench) -> None:
    """What does not fit is None, and no slot is lost."""
    held = bench.take(2)
    need = bench.request.size - 1
    bench.expect(f"alloc({need})", expected=None, got=bench.alloc(need))
    bench.expect_only_owned(f"alloc({need}), which did not fit", held)


@law(
    "state-slots.double-free",
    StateSlotAllocator,
    needs=ACCOUNTS,
    hazardous=True,
    check="remember which slots are owned; a list of free ones alone cannot tell",
)
def double_free(bench: SlotsBench) -> None:
    """A slot that is free already, slot 0, or one out of range never becomes free."""
    other, mine = bench.take(1), bench.take(2)
    bench.free(mine)
    for wrong in (mine, [0], [-1], [bench.request.size + 1], [-bench.request.size]):
        refused(partial(bench.free, wrong))
    bench.expect_only_owned(f"free({mine}), free({mine}), frees of what is no slot", other)


@law(
    "state-slots.group",
    StateSlotAllocator,
    needs=ACCOUNTS,
    check="return what was taken ahead and not asked for, when the group ends and before another",
)
def group(bench: SlotsBench) -> None:
    """A group loses no slot and lends none twice: larger than what is free, left open, cleared."""
    size = bench.request.size
    for ahead in (0, 3, size + 1):
        bench.pool.alloc_group_begin(ahead)
        row = [bench.take(1)[0] for _ in range(2)]
        bench.expect("distinct slots", expected=2, got=len(set(row)))
        bench.pool.alloc_group_end()
        call = f"alloc_group_begin({ahead}), alloc(1) twice, alloc_group_end()"
        bench.expect_only_owned(call, row)
    bench.pool.alloc_group_begin(2)
    bench.pool.alloc_group_begin(2)
    bench.pool.alloc_group_end()
    bench.expect_only_owned("alloc_group_begin(2) twice, alloc_group_end()", [])
    bench.pool.alloc_group_begin(2)
    bench.pool.clear()
    bench.pool.alloc_group_end()
    bench.expect_only_owned("alloc_group_begin(2), clear(), alloc_group_end()", [])


@law(
    "state-slots.caller-overwrites",
    StateSlotAllocator,
    needs=ACCOUNTS,
    check="copy what is kept; accept int32, as the table of a request pool keeps slots",
)
def caller_overwrites(bench: SlotsBench) -> None:
    """Slots go back as int32 or int64; what was given and given back may be overwritten at once."""
    for dtype in (torch.int32, torch.int64):
        other = bench.take(1)
        given = bench.pool.alloc(2)
        row = given.to(dtype, copy=True)
        given.fill_(other[0])
        bench.pool.free(row)
        row.fill_(other[0])
        bench.expect_only_owned(f"free(row {dtype}); row.fill_({other[0]})", other)
