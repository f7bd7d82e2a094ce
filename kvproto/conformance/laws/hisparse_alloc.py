"""Ids for tokens, of which some have a place on the device: who owns which place."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import HiSparseAllocator

from ..account_bench import refused, slots
from ..broken import LawBroken
from ..hisparse_bench import HiSparseBench
from ..law import law
from .alloc import ACCOUNTS, INDEX_DTYPES
from .sync_free import traced

PLACED = (*ACCOUNTS, "hisparse-alloc.mapping")


@law(
    "hisparse-alloc.mapping",
    HiSparseAllocator,
    needs=(*ACCOUNTS, "alloc.extend-continues"),
    check="register one table with the pool; enter what alloc and alloc_extend place, clear frees",
)
def mapping(bench: HiSparseBench) -> None:
    """Ids of alloc and alloc_extend have device slots of their own until they are freed."""
    size = bench.page_size
    row = bench.take(size)
    row += bench.extend([row, []], [size // 2 + 1, 0]) or []
    other = bench.extend([[]], [size + 1]) or []
    row += bench.extend([row], [size]) or []
    call = "alloc, alloc_extend"
    every = row + other
    bench.expect_placed(call, every, [True] * len(every))
    bench.expect_room(call, [row, other])
    bench.free(row)
    bench.expect(f"{call}, free", expected=[0] * len(row), got=bench.device(row))
    bench.expect_placed(f"{call}, free of another", other, [True] * len(other))
    bench.pool.free_segment(slots(other), start_pos=0)
    bench.expect_only_owned(f"{call}, free, free_segment")


@law(
    "hisparse-alloc.logical-only",
    HiSparseAllocator,
    needs=PLACED,
    check="lend ids from the logical allocator alone, and clear what the mapping says of them",
)
def logical_only(bench: HiSparseBench) -> None:
    """`alloc_logical_only` continues a request without the device, also when that has no room."""
    size = bench.page_size
    held = bench.take(bench.usable)
    one, two = list[int](), list[int]()
    for lens in ([size // 2 + 1, 1], [size, 0], [0, size]):
        batch = [one, two]
        call = bench.logical_call(batch, lens)
        given = bench.must(call, sum(lens), bench.logical(batch, lens))
        for row, more in zip(batch, lens, strict=True):
            new, given = given[:more], given[more:]
            bench.expect_continues(call, row, new)
            row.extend(new)
        bench.expect_owned(call, held, one, two)
        bench.expect_placed(call, one + two, [False] * len(one + two))
        bench.expect_room(call, [held, one, two])
    bench.free(held)
    given = bench.extend([one], [2 * size]) or []
    call = "alloc_extend of a request whose last page is not on the device"
    places = [each // size != one[-1] // size for each in given]
    bench.expect_placed(call, given, places)
    bench.expect_only_owned(call, one + given, two)


@law(
    "hisparse-alloc.buffer",
    HiSparseAllocator,
    needs=PLACED,
    check="whole pages: those of the request's tokens first, then new ones; free what is too many",
)
def buffer(bench: HiSparseBench) -> None:
    """A buffer is whole pages, the request's own first; its ids lose their slots, none is lost."""
    size = bench.page_size
    for tokens, pages in ((2 * size + 1, 1), (2 * size, 2), (size + 1, 3), (0, 2), (size, 0)):
        other = bench.take(size)
        row = bench.extend([[]], [tokens]) or []
        own = list(dict.fromkeys(slot // size for slot in bench.device(row)))
        need = pages * size
        call = bench.buffer_call(row, need)
        given = bench.take_buffer(row, need)
        bench.expect(f"{call}; device slots left", expected=[0] * tokens, got=bench.device(row))
        _expect_pages(bench, call, given, own[:pages])
        bench.expect_placed(call, other, [True] * size)
        bench.expect_room(call, [other, row])
        bench.free(row)
        bench.expect_room(f"{call}, free of the ids", [other])
        bench.free_buffer(given)
        bench.expect_only_owned(f"{call}, free of both", other)


@law(
    "hisparse-alloc.free-device",
    HiSparseAllocator,
    needs=PLACED,
    check="free the device pages, clear all ids on them, and leave the ids where they are",
)
def free_device(bench: HiSparseBench) -> None:
    """`free_hisparse` takes a page of the device back once, from all ids on it; ids stay owned."""
    size = bench.page_size
    other, row = bench.take(size), bench.take(2 * size)
    gone: set[int] = set()
    for given in ([row[-1]], row[size:], row, [0, -1, *row[:1]]):
        bench.free_device(given)
        gone |= {each // size for each in given}
        call = f"free_hisparse({given if len(given) < 9 else f'{len(given)} ids'})"
        bench.expect_placed(call, row, [each // size not in gone for each in row])
        bench.expect_placed(call, other, [True] * size)
        bench.expect_room(call, [other, row])
    bench.free(row)
    bench.expect_only_owned("free_hisparse, free", other)


@law(
    "hisparse-alloc.free-slots",
    HiSparseAllocator,
    needs=(*PLACED, "hisparse-alloc.buffer"),
    hazardous=True,
    check="drop what is below page_size before the device allocator sees it",
)
def free_slots(bench: HiSparseBench) -> None:
    """`free_hisparse_indices` skips the reserved page and below, and frees no slot twice."""
    size = bench.page_size
    other = bench.take(size)
    given = bench.take_buffer([], 2 * size)
    bench.free_buffer([0, size - 1, -1, -size, *given[:1]])
    bench.buffers = given[size:]
    call = f"free_hisparse_indices([0, {size - 1}, -1, {-size}, a slot of a buffer])"
    bench.expect_room(call, [other])
    refused(partial(bench.pool.free_hisparse_indices, slots(given)))
    if bench.room()[1] == bench.request.size - size:
        bench.buffers = []
    bench.expect_room(f"{call}, of the whole buffer", [other])
    bench.pool.free_hisparse_indices(slots(bench.buffers))
    bench.buffers = []
    bench.expect_only_owned(f"{call}, of the rest", other)


@law(
    "hisparse-alloc.translate",
    HiSparseAllocator,
    needs=PLACED,
    check="0 gives 0, negatives stay negative or give 0, in any shape; no mask, no .item()",
)
def translate(bench: HiSparseBench) -> None:
    """The pool's translation keeps the shape, invents no slot, and waits for no data."""
    placed, absent = bench.take(bench.page_size)[0], bench.take_logical(bench.page_size)[0]
    slot = bench.device([placed])[0]
    through = bench.pool.get_kvcache().translate_loc_to_hisparse_device
    for dtype in INDEX_DTYPES:
        given = slots([0, placed, absent, -1, placed, -9], dtype)
        for loc in (given, given.view(2, 3), given[1::3], given[:0]):
            call = f"translate_loc_to_hisparse_device({loc} {dtype})"
            got = traced(call, partial(through, loc))
            bench.expect(f"{call}.shape", expected=loc.shape, got=got.shape)
            right = torch.where(loc < 0, got.clamp(max=0), torch.where(loc == placed, slot, 0))
            if got.is_floating_point() or not bool((got == right).all()):
                raise LawBroken(call, expected=str(right), got=str(got))


def _expect_pages(bench: HiSparseBench, call: str, given: list[int], own: list[int]) -> None:
    """Whole pages of the device, in the order of their slots, these first."""
    size = bench.page_size
    pages = [slot // size for slot in given[::size]]
    whole = [page * size + offset for page in pages for offset in range(size)]
    bench.expect(f"{call}; whole pages", expected=whole, got=given)
    bench.expect(f"{call}; pages of its own", expected=own, got=pages[: len(own)])
    strangers = [page for page in pages if page * size not in bench.device_slots]
    bench.expect(f"{call}; pages that are not lent", expected=[], got=strangers)
    bench.expect(f"{call}; pages, each once", expected=len(pages), got=len(set(pages)))
