"""Full and window slots in step: which tokens have peers, and that pages go back as wholes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from kvproto.protocols import SWAAllocator

from ..account_bench import slots
from ..broken import LawBroken
from ..law import law
from ..pair_bench import PairBench
from .alloc import ACCOUNTS, INDEX_DTYPES
from .sync_free import run_traced, watched

MAPPED = (*ACCOUNTS, "swa-alloc.mapping")


@law(
    "swa-alloc.mapping",
    SWAAllocator,
    needs=(*ACCOUNTS, "alloc.extend-continues", "alloc.decode-continues"),
    check="enter a peer for every slot that is returned, and clear it when the slot is freed",
)
def mapping(bench: PairBench) -> None:
    """Every slot that is lent has a peer at the same place of a window page, until it is freed."""
    size = bench.page_size
    rows = [
        bench.take(size),
        bench.extend([[]], [size + 1]) or [],
        bench.extend([[]], [size]) or [],
    ]
    for row, slot in zip(rows, bench.decode(rows) or (), strict=True):
        row.append(slot)
    for row in rows:
        _expect_peers(bench, "alloc, alloc_extend, alloc_decode", row, len(row))
    every = [slot for row in rows for slot in row]
    distinct = len(set(bench.peers(every)))
    bench.expect("window slots of all that is owned", expected=len(every), got=distinct)
    bench.free(every)
    bench.expect("peers of what was freed", expected=[0] * len(every), got=bench.peers(every))
    bench.expect_only_owned("alloc, alloc_extend, alloc_decode, free of all")


@law(
    "swa-alloc.tail",
    SWAAllocator,
    needs=MAPPED,
    check="clear the mapping of all that is returned before the tail's peers are entered",
)
def tail(bench: PairBench) -> None:
    """The last `swa_tail_len` tokens have peers, all others none, whatever was there before."""
    size = bench.page_size
    new = 3 * size
    for length in (size, 0, size // 2 + 1, new):
        _leave_stale_peers(bench)
        call = bench.tail_call([], new, length)
        row = bench.tailed(new, length)
        bench.expect_owned(call, row)
        bench.expect_continues(call, [], row)
        _expect_peers(bench, call, row, length)
        bench.expect_room(call, [row])
        bench.pool.free_swa(slots(row))
        left = (bench.request.size - new, bench.asked.size_swa)
        bench.expect(f"{call}, free_swa; free slots", expected=left, got=bench.room())
        bench.pool.clear()


@law(
    "swa-alloc.page-lifetime",
    SWAAllocator,
    applies=lambda request: request.page_size > 1,
    needs=MAPPED,
    check="clear the mapping of every slot on the page, not only of those that were passed",
)
def page_lifetime(bench: PairBench) -> None:
    """When a window page is freed, every token on it loses its peer, and none frees it again."""
    size = bench.page_size
    row = bench.take(2 * size)
    call = f"free_swa([{row[1]}])"
    bench.pool.free_swa(slots(row[1:2]))
    _expect_peers(bench, call, row, size)
    left = (bench.request.size - 2 * size, bench.asked.size_swa - size)
    bench.expect(f"{call}; free slots", expected=left, got=bench.room())
    bench.pool.free_swa(slots(row[2:size]))
    bench.expect(f"{call}, free_swa of its page's rest", expected=left, got=bench.room())
    bench.free(row)
    bench.expect_only_owned(f"{call}, free of both pages")


@law(
    "swa-alloc.segment-unmapped",
    SWAAllocator,
    needs=MAPPED,
    check="skip slots without a peer on every path: their peer reads 0, the reserved page",
)
def segment_unmapped(bench: PairBench) -> None:
    """Slots without a peer are skipped: the window's reserved page is never free."""
    size = bench.page_size
    for how, free in _ways(bench, "free", "free_segment", "free_swa", "free_swa_segment"):
        call = f"{how} of {3 * size} tokens, of which the last {size} have peers"
        free(slots(bench.evicted(3 * size, size)))
        whole, left = bench.asked.size_swa, bench.pool.swa_available_size()
        bench.expect(f"{call}; swa_available_size()", expected=whole, got=left)
        later = bench.take(bench.pool.available_size())
        _expect_peers(bench, f"{call}, alloc({len(later)})", later, len(later))
        bench.pool.clear()


@law(
    "swa-alloc.evict-then-free",
    SWAAllocator,
    needs=MAPPED,
    check="look the peers up at the time of each free; those that are gone were freed already",
)
def evict_then_free(bench: PairBench) -> None:
    """A token whose peer was freed before it gives back its full slot only, on every path."""
    size = bench.page_size
    ends = ("free", "free_segment", "free_full", "free_full_segment")
    for how, evict in _ways(bench, "free_swa", "free_swa_segment"):
        for end, free in _ways(bench, *ends):
            other, row = bench.take(size), bench.take(2 * size)
            evict(slots(row if "full" in end else row[:size]))
            call = f"{how}(a row's first tokens)"
            bench.expect_room(call, [other, row])
            _expect_peers(bench, call, other, size)
            free(slots(row))
            bench.expect_only_owned(f"{call}, {end}(the row)", other)


@law(
    "swa-alloc.translate",
    SWAAllocator,
    needs=MAPPED,
    check="0 and unmapped give 0, negatives -1 or 0, in any shape: clamp before the look-up",
)
def translate(bench: PairBench) -> None:
    """Translation keeps the shape; only a location with a peer gives another slot than -1 or 0."""
    size = bench.page_size
    row = [bench.evicted(size)[0], bench.take(bench.pool.available_size())[0]]
    peer = bench.peers(row)[-1]
    for dtype in INDEX_DTYPES:
        given = slots([0, row[-1], row[0], -1, row[-1], -size], dtype)
        for loc in (given, given.view(2, 3), given[1::3], given[:0], given.view(2, 3).t()):
            got = bench.pool.translate_loc_from_full_to_swa(loc)
            call = f"translate_loc_from_full_to_swa({loc} {dtype})"
            bench.expect(f"{call}.shape", expected=loc.shape, got=got.shape)
            right = torch.where(loc < 0, got.clamp(-1, 0), torch.where(loc == row[-1], peer, 0))
            if not bool((got == right).all()):
                raise LawBroken(call, expected=str(right), got=str(got))


@law(
    "swa-alloc.sync-free",
    SWAAllocator,
    needs=(*MAPPED, "swa-alloc.segment-unmapped"),
    check="send slots without a peer to page 0 and skip it later; no mask, no unique, no .item()",
)
def sync_free(bench: PairBench) -> None:
    """Translation and segment frees run no operation whose shape or flow depends on the slots."""
    bench = watched(bench)
    size = bench.page_size
    row, other = slots(bench.evicted(3 * size, size)), slots(bench.take(size))
    translated = bench.pool.translate_loc_from_full_to_swa
    run_traced("translate_loc_from_full_to_swa", lambda: translated(row))
    for how, free in _ways(bench, "free_swa_segment", "free_full_segment"):
        run_traced(how, partial(free, row))
    run_traced("free_segment", lambda: bench.pool.free_segment(other, start_pos=0))
    bench.expect_only_owned("free_swa_segment, free_full_segment, free_segment")


def _expect_peers(bench: PairBench, call: str, row: Sequence[int], length: int) -> None:
    """The row's last tokens have peers, a window page for each page, and no others have."""
    size, peers = bench.page_size, bench.peers(row)
    window = range(size, bench.asked.size_swa + size)
    pages: dict[int, int] = {}
    for token, (slot, peer) in enumerate(zip(row, peers, strict=True)):
        page = pages.setdefault(slot // size, peer // size) if peer else 0
        mapped = token >= len(row) - length
        right = peer in window and peer == page * size + slot % size if mapped else peer == 0
        if not right:
            expected = f"a window slot at offset {slot % size} of one page" if mapped else "0"
            raise LawBroken(f"{call}; peer of {slot}", expected=expected, got=str(peer))


def _leave_stale_peers(bench: PairBench) -> None:
    """What earlier owners leave behind, and where the table can be reached, worse."""
    bench.free(bench.take(bench.usable))
    table = getattr(bench.pool, "full_to_swa_index_mapping", None)
    if isinstance(table, Tensor):
        stale = torch.arange(len(bench.lendable)) % bench.asked.size_swa + bench.page_size
        table[bench.lendable.start : bench.lendable.stop] = stale.to(table.dtype)


def _ways(bench: PairBench, *doors: str) -> list[tuple[str, Callable[[Tensor], object]]]:
    def through(door: str) -> Callable[[Tensor], object]:
        free = getattr(bench.pool, door)
        return (lambda row: free(row, start_pos=0)) if "segment" in door else free

    return [(door, through(door)) for door in doors]
