"""What every allocator of token slots owes: a slot is free, held back, or owned by one request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from kvproto.protocols import PagedAllocator, SlotAllocator

from ..account_bench import AllocBench, refused, slots
from ..broken import LawBroken
from ..law import law
from .sync_free import run_traced, watched

ACCOUNTS = ("alloc.exhaust", "alloc.clear")
ALLOC = (*ACCOUNTS, "alloc.range")
INDEX_DTYPES = (torch.int32, torch.int64)


@law(
    "alloc.range",
    SlotAllocator,
    check="the first page is reserved: count pages from 1",
)
def lendable_range(bench: AllocBench) -> None:
    """Slots are those from page 1 to the end, in whole pages; the first page is never lent."""
    call = f"alloc({bench.usable})"
    row = bench.must(call, bench.usable, bench.alloc(bench.usable))
    bench.expect_owned(call, row)
    bench.expect_continues(call, [], row)
    bench.expect("alloc(0)", expected=[], got=bench.alloc(0))


@law(
    "alloc.disjoint",
    SlotAllocator,
    check="take the slots off the free list before they are handed out",
)
def disjoint(bench: AllocBench) -> None:
    """No slot has two owners, also after others were freed."""
    size = bench.page_size
    first, second, third = bench.take(2 * size), bench.take(size), bench.take(2 * size)
    bench.expect_owned(f"alloc({2 * size}), alloc({size}), alloc({2 * size})", first, second, third)
    bench.free(second)
    later = [bench.take(size), bench.take(size)]
    bench.expect_owned("alloc twice, after one of three was freed", first, third, *later)


@law(
    "alloc.exhaust",
    SlotAllocator,
    check="available_size counts what alloc can take, freed slots that wait to be sorted too",
)
def exhaust(bench: AllocBench) -> None:
    """As many slots as are available can be had, then none; freed in any order, all come back."""
    for turn in ("as built", "after all were freed"):
        available = bench.pool.available_size()
        bench.expect(f"available_size(), {turn}", expected=bench.usable, got=available)
        row = bench.take(bench.usable)
        bench.expect("available_size(), all owned", expected=0, got=bench.pool.available_size())
        bench.random.shuffle(row)
        bench.free(row)


@law(
    "alloc.clear",
    SlotAllocator,
    check="reset every list: free, waiting to be sorted, held back by a group, window peers",
)
def clear(bench: AllocBench) -> None:
    """After clear nothing is owned and no group is open, as when built."""
    size = bench.page_size
    bench.take(2 * size)
    freed = bench.take(size)
    bench.pool.free_group_begin()
    bench.free(freed)
    bench.pool.clear()
    bench.expect_only_owned("alloc, free_group_begin, free, clear")
    row = bench.take(size)
    bench.pool.free_group_begin()
    bench.pool.free_group_end()
    bench.expect_only_owned("clear, alloc, free_group_begin, free_group_end", row)


@law(
    "alloc.extend-continues",
    PagedAllocator,
    needs=ACCOUNTS,
    check="fill the page of last_loc first, then whole new pages, request after request",
)
def extend_continues(bench: AllocBench) -> None:
    """Each request of a batch goes on on the page it ends on, then on pages of its own."""
    size = bench.page_size
    one, two, three = list[int](), list[int](), list[int]()
    for batch, lens in (
        ([one, two], [size // 2 + 1, size]),
        ([one, three, two], [size, size + 1, 1]),
        ([two, one, three], [0, 0, 0]),
    ):
        call = bench.extend_call(batch, lens)
        given = bench.extend(batch, lens)
        if given is None:
            raise LawBroken(call, expected=f"{sum(lens)} slots", got="None")
        for row, more in zip(batch, lens, strict=True):
            new, given = given[:more], given[more:]
            bench.expect_continues(call, row, new)
            row.extend(new)
        bench.expect_owned(call, one, two, three)
    bench.expect_only_owned("after alloc_extend", one, two, three)


@law(
    "alloc.decode-continues",
    PagedAllocator,
    needs=("alloc.extend-continues",),
    check="last_loc + 1, or the first slot of a new page where the sequence length begins one",
)
def decode_continues(bench: AllocBench) -> None:
    """The next token follows the last one on its page; a new page is taken where that is full."""
    size = bench.page_size
    batch = [bench.extend([[]], [size // 2 + 1]) or [], bench.extend([[]], [size]) or []]
    for _ in range(size + 1):
        call = bench.decode_call(batch)
        given = bench.decode(batch)
        if given is None:
            raise LawBroken(call, expected=f"{len(batch)} slots", got="None")
        for row, slot in zip(batch, given, strict=True):
            bench.expect_continues(call, row, [slot])
            row.append(slot)
        bench.expect_owned(call, *batch)
    bench.expect_only_owned("after alloc_decode", *batch)


@law(
    "alloc.all-or-nothing",
    SlotAllocator,
    needs=(*ALLOC, "alloc.extend-continues", "alloc.decode-continues"),
    hazardous=True,
    check="compare the demand with what is free, in every part, before the first change",
)
def all_or_nothing(bench: AllocBench) -> None:
    """What does not fit is None, and nothing has changed, in no space of a pair."""
    for shortage in bench.shortages():
        for call, ask in bench.too_much():
            room, peers = bench.room(), bench.all_peers()
            bench.expect(f"{call}, {shortage}", expected=None, got=ask())
            bench.expect(f"what is free, after {call} was None", expected=room, got=bench.room())
            same = peers == bench.all_peers()
            bench.expect(f"same window peers, after {call} was None", expected=True, got=same)
    bench.expect_only_owned("after what did not fit", bench.held)


@law(
    "alloc.double-free",
    SlotAllocator,
    needs=ACCOUNTS,
    check="remember which pages are owned; a list of free ones alone cannot tell",
)
def double_free(bench: AllocBench) -> None:
    """What is freed twice is refused or ignored: it is never lent to two."""
    for how, first in _ways(bench.pool):
        for how_again, again in _ways(bench.pool):
            for groups in ((), (0,), (1,), (0, 1)):
                other, row = bench.take(bench.page_size), slots(bench.take(bench.page_size))
                call = _free_twice(bench.pool, groups, partial(first, row), partial(again, row))
                bench.expect_only_owned(f"{how}(row), {how_again}(row){call}", other)
    half = bench.page_size // 2
    other, row = bench.take(bench.page_size), slots(bench.take(bench.page_size))
    bench.pool.free(row[half:])
    refused(lambda: bench.pool.free(row[:half]))
    bench.expect_only_owned("free(half of a page), free(the other half)", other)


@law(
    "alloc.same-page",
    SlotAllocator,
    needs=ACCOUNTS,
    check="make a set of pages of what is freed: torch.unique(free_index // page_size)",
)
def same_page(bench: AllocBench) -> None:
    """Slots of one page, or one slot several times, in one call are a single release."""
    size = bench.page_size
    row, other = bench.take(2 * size), bench.take(size)
    given = [*row[::-1], *row[size - 1 :: -1], row[-1]]
    bench.free(given)
    bench.expect_only_owned(f"free({given if size < 8 else 'two pages, some slots twice'})", other)


@law(
    "alloc.stranger-free",
    SlotAllocator,
    needs=ACCOUNTS,
    hazardous=True,
    check="drop what is below page_size or not below size + page_size; negative indices wrap",
)
def stranger_free(bench: AllocBench) -> None:
    """Slots of the reserved page, negative ones and those past the end free nothing."""
    size, end = bench.page_size, bench.lendable.stop
    for stranger in (0, size - 1, -1, -size, end, end + 99):
        mine = bench.rest()
        refused(partial(bench.free, [stranger]))
        bench.expect_only_owned(f"free([{stranger}])", mine)
        mine = bench.rest()
        kept = mine if refused(partial(bench.free, [stranger, *mine])) else []
        bench.expect_only_owned(f"free([{stranger}, ...owned])", kept)


@law(
    "alloc.group",
    SlotAllocator,
    needs=ACCOUNTS,
    check="keep what is freed apart until free_group_end, segments too, and return all of it",
)
def group(bench: AllocBench) -> None:
    """What is freed inside a group is available when the group ends, and not before."""
    size = bench.page_size
    one, two, three = bench.take(size), bench.take(size), bench.take(size)
    before = bench.room()
    bench.pool.free_group_begin()
    bench.free(one)
    bench.free_segment(two, 0)
    bench.expect("available, inside the group", expected=before, got=bench.room())
    four = bench.take(size)
    bench.expect_owned("alloc inside the group", one, two, three, four)
    bench.pool.free_group_end()
    bench.expect_only_owned("free and free_segment in a group, after its end", three, four)


@law(
    "alloc.segment",
    SlotAllocator,
    needs=ACCOUNTS,
    check="one page for every page_size tokens of the segment, the last one too if it is cut short",
)
def segment(bench: AllocBench) -> None:
    """A segment of a request gives back the pages it begins, whole, and no page beside them."""
    size = bench.page_size
    cut = 3 * size - size // 2
    for calls, kept in (
        ([(size, cut)], slice(0, size)),
        ([(0, size), (2 * size, cut)], slice(size, 2 * size)),
        ([(0, 0), (2 * size, 2 * size)], slice(0, cut)),
        ([(0, 2 * size), (2 * size, cut)], slice(0, 0)),
    ):
        for at_once in (False, True):
            row = bench.take(3 * size)[:cut]
            parts = [(slots(row[start:end]), start) for start, end in calls]
            if at_once:
                bench.pool.free_segments(parts)
            else:
                for part, start in parts:
                    bench.pool.free_segment(part, start_pos=start)
            said = ", ".join(f"tokens {start}..{end - 1}" for start, end in calls)
            call = f"free_segment{'s' if at_once else ''} of {said} of {cut}"
            bench.expect_only_owned(call, row[kept])


@law(
    "alloc.caller-overwrites",
    SlotAllocator,
    needs=ALLOC,
    check="copy what is kept for later; hand out no view of the free list",
)
def caller_overwrites(bench: AllocBench) -> None:
    """The caller may overwrite what it was given, and what it gave back, at once."""
    size = bench.page_size
    for in_group in (False, True):
        for how, free in _ways(bench.pool):
            other = bench.take(size)
            given = bench.pool.alloc(2 * size)
            row = given.clone()
            given.fill_(other[0])
            if in_group:
                bench.pool.free_group_begin()
            free(row)
            row.fill_(other[0])
            if in_group:
                bench.pool.free_group_end()
            place = " inside a group" if in_group else ""
            bench.expect_only_owned(f"{how}(row){place}; row.fill_({other[0]})", other)


@law(
    "alloc.index-dtypes",
    SlotAllocator,
    needs=ALLOC,
    check="rows of the request table are int32: convert, once, before anything is kept",
)
def index_dtypes(bench: AllocBench) -> None:
    """Slots come as int64, and go back as int32, as the request table keeps them, or as int64."""
    size = bench.page_size
    for dtype in INDEX_DTYPES:
        for how, free in _ways(bench.pool):
            given = bench.pool.alloc(2 * size)
            bench.expect(f"alloc({2 * size}).dtype", expected=torch.int64, got=given.dtype)
            wide = torch.stack((given, given), 1).to(dtype)
            free(wide[:, 0])
            bench.expect_only_owned(f"{how}({dtype}, every second of a tensor)")


@law(
    "alloc.sync-free",
    SlotAllocator,
    needs=ACCOUNTS,
    check="free_segment takes every page_size-th slot; no unique, no mask, no .item()",
)
def sync_free(bench: AllocBench) -> None:
    """Freeing segments runs no operation whose shape or control flow depends on the slots."""
    bench = watched(bench)
    size = bench.page_size
    row = slots(bench.take(3 * size))
    run_traced("free_segment", lambda: bench.pool.free_segment(row[:size], start_pos=0))
    parts = [(row[size : 2 * size], size), (row[2 * size :], 2 * size)]
    run_traced("free_segments", lambda: bench.pool.free_segments(parts))
    bench.expect_only_owned("free_segment, free_segments")


_Free = Callable[[torch.Tensor], object]


def _ways(pool: Any) -> tuple[tuple[str, _Free], ...]:
    return (
        ("free", pool.free),
        ("free_segment", lambda row: pool.free_segment(row, start_pos=0)),
        ("free_segments", lambda row: pool.free_segments([(row, 0)])),
    )


def _free_twice(
    pool: Any,
    grouped: tuple[int, ...],
    first: Callable[[], object],
    again: Callable[[], object],
) -> str:
    """Free, and try to free again; the frees of these numbers in a group, both in the same."""
    if 0 in grouped:
        pool.free_group_begin()
    first()
    if grouped == (0,):
        pool.free_group_end()
    if grouped == (1,):
        pool.free_group_begin()
    refused(again)
    if 1 in grouped:
        pool.free_group_end()
    places: dict[tuple[int, ...], str] = {
        (): "",
        (0,): ", the first",
        (1,): ", the second",
        (0, 1): ", both",
    }
    return f"{places[grouped]} in a group" if grouped else ""
