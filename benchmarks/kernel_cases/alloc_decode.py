"""A slot for the next token of each request, in one space and in two."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from benchmarks.kernel_cases.batches import PAGE_SIZES, decoding
from benchmarks.kernel_cases.case import Case, Inputs, Place
from kvproto.kernels import alloc_decode, alloc_decode_pair
from kvproto.kernels.triton.alloc_decode import plan_alloc_decode, plan_alloc_decode_pair
from kvproto.kernels.triton.launch import Launch

__all__ = ["cases"]

Pages = tuple[Tensor]
PairedPages = tuple[Tensor, Tensor, Tensor]


def cases() -> Iterator[Case]:
    """Each size of pages; what a case calls tokens are requests."""
    for page_size in PAGE_SIZES:
        yield Case(
            operation="alloc_decode",
            shape=f"pages of {page_size}",
            inputs=partial(_inputs, page_size, 1),
            plan=partial(_plan, page_size),
            call=partial(_call, page_size),
            moves=partial(_moves, 1),
            tokens=(64,),
            bulk=1024,
        )
        yield Case(
            operation="alloc_decode_pair",
            shape=f"pages of {page_size}",
            inputs=partial(_inputs, page_size, 2),
            plan=partial(_plan_pair, page_size),
            call=partial(_call_pair, page_size),
            moves=partial(_moves, 2),
            tokens=(64,),
            bulk=1024,
        )


def _inputs(page_size: int, spaces: int, place: Place) -> Inputs:
    batch = decoding(place, page_size)
    out = batch.seq_lens.new_empty(batch.tokens)
    pages = (batch.new_pages, batch.peer_pages, batch.peers) if spaces == 2 else (batch.new_pages,)
    return batch.seq_lens, batch.last_loc, pages, out


def _plan(page_size: int, seq: Tensor, last: Tensor, pages: Pages, out: Tensor) -> list[Launch]:
    return [plan_alloc_decode(seq, last, *pages, page_size, out)]


def _plan_pair(
    page_size: int, seq: Tensor, last: Tensor, pages: PairedPages, out: Tensor
) -> list[Launch]:
    return [plan_alloc_decode_pair(seq, last, *pages, page_size, out)]


def _call(page_size: int, seq: Tensor, last: Tensor, pages: Pages, out: Tensor) -> None:
    out.copy_(alloc_decode(seq, last, *pages, page_size))


def _call_pair(page_size: int, seq: Tensor, last: Tensor, pages: PairedPages, out: Tensor) -> None:
    out.copy_(alloc_decode_pair(seq, last, *pages, page_size))


def _moves(spaces: int, seq: Tensor, last: Tensor, pages: tuple[Tensor, ...], out: Tensor) -> int:
    """A length; a new page or the last slot, and of a second space a page or a peer; the slots."""
    return seq.nbytes + last.nbytes + out.nbytes + (spaces - 1) * 2 * out.nbytes
