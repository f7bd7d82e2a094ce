"""All slots of some pages in two spaces."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from torch import Tensor

from benchmarks.kernel_cases.batches import PAGE_SIZES, pages_for
from benchmarks.kernel_cases.case import Case, Inputs, Place
from kvproto.kernels import alloc_pages_pair
from kvproto.kernels.triton.alloc_pages import plan_alloc_pages_pair
from kvproto.kernels.triton.launch import Launch

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Each size of pages; what a case calls tokens are pages."""
    for page_size in PAGE_SIZES:
        yield Case(
            operation="alloc_pages_pair",
            shape=f"pages of {page_size}",
            inputs=partial(_inputs, page_size),
            plan=partial(_plan, page_size),
            call=partial(_call, page_size),
            moves=_moves,
            tokens=(64,),
            bulk=1024,
        )


def _inputs(page_size: int, place: Place) -> Inputs:
    batch = pages_for(place, page_size)
    out = batch.new_pages.new_empty(batch.tokens)
    return batch.new_pages, batch.peer_pages, batch.peers, out


def _plan(
    page_size: int, pages: Tensor, peer_pages: Tensor, peers: Tensor, out: Tensor
) -> list[Launch]:
    return [plan_alloc_pages_pair(pages, peer_pages, peers, page_size, out)]


def _call(page_size: int, pages: Tensor, peer_pages: Tensor, peers: Tensor, out: Tensor) -> None:
    out.copy_(alloc_pages_pair(pages, peer_pages, peers, page_size))


def _moves(pages: Tensor, peer_pages: Tensor, peers: Tensor, out: Tensor) -> int:
    """Each page, and each slot once per space."""
    return pages.nbytes + peer_pages.nbytes + 2 * out.nbytes
