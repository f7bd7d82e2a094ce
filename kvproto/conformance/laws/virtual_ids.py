"""Ids that are not slots: what is behind them, and how kernels are told."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import VirtualIdAllocator

from ..account_bench import slots
from ..broken import LawBroken
from ..law import law
from ..virtual_bench import VirtualBench
from .alloc import ACCOUNTS, INDEX_DTYPES
from .sync_free import traced

BEHIND = (*ACCOUNTS, "virtual-ids.table")


@law(
    "virtual-ids.table",
    VirtualIdAllocator,
    needs=ACCOUNTS,
    check="enter a page for every page of ids that is lent, clear it when freed, in one tensor",
)
def table(bench: VirtualBench) -> None:
    """Lent ids have slots of their own, by the table that is registered once; free ids none."""
    pool, size = bench.pool, bench.page_size
    kept = pool.full_v2p_page_table
    bench.expect("full_v2p_page_table.dtype", expected=torch.int64, got=kept.dtype)
    largest = bench.lendable.stop - 1
    enough = pool.draft_virtual_id_space >= largest
    bench.expect(f"draft_virtual_id_space >= {largest}", expected=True, got=enough)
    first, second = bench.take(2 * size), bench.take(size)
    bench.free(first)
    third = bench.take(2 * size)
    every = second + third
    places = bench.physical(every)
    call = "alloc twice, free of the first, alloc"
    bench.expect(f"{call}; distinct slots", expected=len(every), got=len(set(places)))
    reserved = sorted(place for place in places if place < size)
    bench.expect(f"{call}; slots of the reserved page", expected=[], got=reserved)
    told = [int(kept[each // size]) * size + each % size for each in every]
    bench.expect(f"{call}; slots by the table", expected=told, got=places)
    bench.free(every)
    bench.expect(f"{call}, free of all", expected=[0] * len(every), got=bench.physical(every))
    bench.expect_only_owned(f"{call}, free of all")


@law(
    "virtual-ids.translate",
    VirtualIdAllocator,
    needs=BEHIND,
    check="0 for what is unmapped, negative or past the end, in any shape; no mask, no .item()",
)
def translate(bench: VirtualBench) -> None:
    """Translation keeps the shape, gives 0 for what has no slot, fills `out`, and never waits."""
    size = bench.page_size
    gone, mine = bench.take(size), bench.rest()
    bench.free(gone)
    slot, past = bench.physical(mine)[0], bench.lendable.stop
    for door in (bench.pool.translate_kv_loc, bench.pool.translate_write_loc):
        name = door.__name__
        for dtype in INDEX_DTYPES:
            given = slots([0, mine[0], gone[0], -1, past, past + 99], dtype)
            shapes = [given, given[1::2], given[:0]]
            shapes += [given.view(2, 3)] if name == "translate_kv_loc" else []
            for loc in shapes:
                call = f"{name}({loc} {dtype})"
                got = traced(call, partial(door, loc))
                right = torch.where(loc == mine[0], slot, 0)
                told = (torch.int64, loc.shape)
                bench.expect(f"{call}; dtype and shape", expected=told, got=(got.dtype, got.shape))
                if not bool((got == right).all()):
                    raise LawBroken(call, expected=str(right), got=str(got))
        out = torch.full((2,), 77)
        got = door(slots([mine[0], gone[0]]), out=out)
        bench.expect(f"{name}(..., out=out); out", expected=[slot, 0], got=[int(o) for o in out])
        same = got.data_ptr() == out.data_ptr()
        bench.expect(f"{name}(..., out=out) is out", expected=True, got=same)


@law(
    "virtual-ids.write-width",
    VirtualIdAllocator,
    needs=BEHIND,
    check="zeros up to out_width, in `out` too: padded rows of a captured graph write nowhere",
)
def write_width(bench: VirtualBench) -> None:
    """Write locations are padded with zeros to `out_width`, whatever `out` held before."""
    mine = bench.take(bench.page_size)
    slot = bench.physical(mine)[0]
    for out in (None, torch.full((4,), 77)):
        got = bench.pool.translate_write_loc(slots(mine[:1]), out=out, out_width=4)
        call = (
            f"translate_write_loc(1 id, out={'a tensor' if out is not None else None}, out_width=4)"
        )
        bench.expect(call, expected=[slot, 0, 0, 0], got=[int(each) for each in got])
