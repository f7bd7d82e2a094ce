"""Pages that hold all layers in one run of bytes: moved, zeroed, shown and exported whole."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import PageEnvelope, PageEnvelopeView, Transferable

from ..broken import LawBroken
from ..kv_bench import KVBench, Side
from ..law import has_layers, law
from ..oracle import peek
from .leaf import OWNED

_Rows = dict[tuple[int, Side], Tensor]
_WRITTEN = (*OWNED, "leaf.write-read")


@law(
    "envelope.move",
    PageEnvelope,
    applies=has_layers,
    needs=_WRITTEN,
    check="copy the page's whole run of bytes: every layer, keys and values",
)
def move(bench: KVBench) -> None:
    """Moving pages takes the rows of all layers along, and touches no other page."""
    was, page = _filled(bench), bench.request.page_size
    empty = torch.empty(0, dtype=torch.int64)
    bench.pool.move_physical_pages(empty, empty, page)
    for dtype in (torch.int32, torch.int64):
        pages = torch.tensor([3, 1], dtype=dtype), torch.tensor([2, 4], dtype=dtype)
        bench.pool.move_physical_pages(*pages, page)
        call = f"move_physical_pages([3, 1], [2, 4], {page}) {dtype}"
        _expect_pages(bench, call, was, {3: 2, 1: 4})


@law(
    "envelope.move-page-size",
    PageEnvelope,
    applies=has_layers,
    needs=_WRITTEN,
    check="compare page_size with the envelope's own before anything is copied",
)
def move_page_size(bench: KVBench) -> None:
    """Page numbers of another page size are refused, and nothing is moved."""
    was, other = _filled(bench), 2 * bench.request.page_size
    tgt, src = torch.tensor([1]), torch.tensor([2])
    call = f"move_physical_pages([1], [2], {other}) on pages of {bench.request.page_size}"
    bench.expect_raises(call, lambda: bench.pool.move_physical_pages(tgt, src, other), ValueError)
    _expect_pages(bench, call, was, {})


@law(
    "envelope.reserved",
    PageEnvelope,
    applies=has_layers,
    needs=_WRITTEN,
    hazardous=True,
    check="drop targets of 0 and below: page 0 stays the sink, and -1 must not wrap",
)
def reserved(bench: KVBench) -> None:
    """Moving to page 0 or to -1 changes nothing."""
    was, page = _filled(bench), bench.request.page_size
    bench.pool.move_physical_pages(torch.tensor([0, -1]), torch.tensor([2, 3]), page)
    _expect_pages(bench, f"move_physical_pages([0, -1], [2, 3], {page})", was, {})


@law(
    "envelope.zero",
    PageEnvelope,
    applies=has_layers,
    needs=_WRITTEN,
    check="zero the page's whole run of bytes; the numbers are pages, not slots",
)
def zero(bench: KVBench) -> None:
    """Zeroing pages empties them in all layers, and touches no other page."""
    was = _filled(bench)
    bench.pool.zero_physical_pages(torch.empty(0, dtype=torch.int64))
    bench.pool.zero_physical_pages(torch.tensor([4, 2]))
    _expect_pages(bench, "zero_physical_pages([4, 2])", was, {4: None, 2: None})


@law(
    "envelope.buffer",
    PageEnvelopeView,
    Transferable,
    applies=has_layers,
    needs=_WRITTEN,
    check="return a view of the allocation, uint8 [pages, bytes of a page], not a copy",
)
def buffer(bench: KVBench) -> None:
    """The envelope buffer is the pages themselves, by number; what is put there is in the rows."""
    was, pages = _filled(bench), bench.slots // bench.request.page_size
    shown: Tensor = bench.pool.get_page_envelope_buffer()
    pointers, _, items = bench.pool.get_contiguous_buf_infos()
    call = "get_page_envelope_buffer()"
    told = (str(shown.dtype), tuple(shown.shape))
    bench.expect(call, expected=("torch.uint8", (pages, sum(items))), got=told)
    exported = peek(pointers[0] + 2 * items[0], items[0])
    bench.expect(f"{call}[2]", expected=exported.hex(), got=bytes(shown[2].cpu().numpy()).hex())
    shown[1] = shown[2]
    _expect_pages(bench, f"{call}[1] = {call}[2]", was, {1: 2})
    direction: Any = bench.pool.grow_direction
    if direction not in ("up", "down"):
        raise LawBroken("grow_direction", expected="up or down", got=repr(direction))


@law(
    "envelope.one-entry",
    PageEnvelope,
    Transferable,
    applies=has_layers,
    needs=OWNED,
    check="export the allocation once: a layer's rows are no run of pages of their own",
)
def one_entry(bench: KVBench) -> None:
    """All layers are exported as one region, whose items are envelopes."""
    pointers, _, items = bench.pool.get_contiguous_buf_infos()
    if len(pointers) != 1:
        raise LawBroken(
            "get_contiguous_buf_infos()",
            expected="one entry for all layers",
            got=f"{len(pointers)} entries with items of {items}",
        )


def _filled(bench: KVBench) -> _Rows:
    """Rows of their own in every slot but 0, of every layer and side."""
    loc = torch.arange(1, bench.slots)
    for layer_id in bench.layer_ids:
        k, v = bench.pair(bench.slots, salt=layer_id)
        bench.write(loc, k[1:], v[1:], layer_id)
    return {(i, side): bench.stored(side, i) for i in bench.layer_ids for side in bench.sides}


def _expect_pages(bench: KVBench, call: str, was: _Rows, now: dict[int, int | None]) -> None:
    """Each page in `now` holds what that other page held, or nothing; the rest is as it was."""
    page = bench.request.page_size
    for (layer_id, side), rows in was.items():
        expected = rows.clone()
        for target, source in now.items():
            there = expected[target * page : (target + 1) * page]
            if source is None:
                there.zero_()
            else:
                there.copy_(rows[source * page : (source + 1) * page])
        got = bench.stored(side, layer_id)
        bench.expect_same(call, got, expected, f"layer {layer_id}, {side} row")
