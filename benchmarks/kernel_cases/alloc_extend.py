"""Slots for the tokens of a prefill, in one space and in two."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from benchmarks.kernel_cases.batches import PAGE_SIZES, extending
from benchmarks.kernel_cases.case import Case, Inputs, Place
from kvproto.kernels import alloc_extend, alloc_extend_pair
from kvproto.kernels.triton.alloc_extend import plan_alloc_extend, plan_alloc_extend_pair
from kvproto.kernels.triton.launch import Launch

__all__ = ["cases"]

_AGAIN = "sums of lengths are written once, and each program reads its request and its sums"


def cases() -> Iterator[Case]:
    """Each size of pages; what a case calls tokens are requests."""
    for page_size in PAGE_SIZES:
        yield Case(
            operation="alloc_extend",
            shape=f"pages of {page_size}",
            inputs=partial(_inputs, page_size, 1),
            plan=partial(_plan, page_size),
            call=partial(_call, page_size),
            moves=partial(_moves, 1),
            tokens=(64,),
            bulk=1024,
            again=partial(_again, 1),
            why=_AGAIN,
        )
        yield Case(
            operation="alloc_extend_pair",
            shape=f"pages of {page_size}",
            inputs=partial(_inputs, page_size, 2),
            plan=partial(_plan_pair, page_size),
            call=partial(_call_pair, page_size),
            moves=partial(_moves, 2),
            tokens=(64,),
            bulk=1024,
            again=partial(_again, 2),
            why=_AGAIN,
        )


def _inputs(page_size: int, spaces: int, place: Place) -> Inputs:
    batch = extending(place, page_size)
    out = batch.new_pages.new_empty(batch.tokens)
    pages = (batch.new_pages, batch.peer_pages, batch.peers) if spaces == 2 else (batch.new_pages,)
    return batch.prefix_lens, batch.seq_lens, batch.last_loc, pages, out


Pages = tuple[Tensor]
PairedPages = tuple[Tensor, Tensor, Tensor]


def _plan(
    page_size: int, prefix: Tensor, seq: Tensor, last: Tensor, pages: Pages, out: Tensor
) -> list[Launch]:
    return list(plan_alloc_extend(prefix, seq, last, *pages, page_size, out))


def _plan_pair(
    page_size: int, prefix: Tensor, seq: Tensor, last: Tensor, pages: PairedPages, out: Tensor
) -> list[Launch]:
    return list(plan_alloc_extend_pair(prefix, seq, last, *pages, page_size, out))


def _call(
    page_size: int, prefix: Tensor, seq: Tensor, last: Tensor, pages: Pages, out: Tensor
) -> None:
    out.copy_(alloc_extend(prefix, seq, last, *pages, page_size, out.shape[0]))


def _call_pair(
    page_size: int, prefix: Tensor, seq: Tensor, last: Tensor, pages: PairedPages, out: Tensor
) -> None:
    out.copy_(alloc_extend_pair(prefix, seq, last, *pages, page_size, out.shape[0]))


def _moves(
    spaces: int, prefix: Tensor, seq: Tensor, last: Tensor, pages: tuple[Tensor, ...], out: Tensor
) -> int:
    """The lengths, each new page, and each new slot once per space."""
    return prefix.nbytes + seq.nbytes + spaces * (pages[0].nbytes + out.nbytes)


def _again(
    spaces: int, prefix: Tensor, seq: Tensor, last: Tensor, pages: tuple[Tensor, ...], out: Tensor
) -> int:
    """Two sums of each request, written; and by each of its programs lengths, sums and last slots.

    A request has a program per 1024 slots of the batch, 512 for two spaces, at most so many that
    the batch has 512: all programs are at most 512 or one per request.
    """
    requests = prefix.shape[0]
    programs = max(1, min(out.shape[0] // (1024 // spaces), 512 // requests))
    lens = prefix.itemsize + seq.itemsize
    return requests * (16 + programs * (lens + 16 + last.itemsize + 8 * (spaces - 1)))
