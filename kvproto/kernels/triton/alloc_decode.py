"""A slot for the next token of each request, and its peer in a second space."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from .given_pages import dense_pages
from .launch import Launch, the_device

__all__ = ["alloc_decode_kernel", "plan_alloc_decode", "plan_alloc_decode_pair"]

_REQUESTS = 1024
"""Read at a time: nearly always all that there are, and kernels do not follow how many."""


@triton.jit
def _begins(seq_lens, request, n, PAGE: tl.constexpr):
    """Which of these requests need a new page for their last token."""
    seq = tl.load(seq_lens + request, mask=request < n, other=0).to(tl.int64)
    return (request < n) & ((seq - 1) % PAGE == 0)


@triton.jit(do_not_specialize=["n", "n_pages", "locations"])
def alloc_decode_kernel(
    seq_lens,
    last_loc,
    n,
    new_pages,
    n_pages,
    out,
    peer_pages,
    peers,
    locations,
    PAGE: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """One program has all requests, `REQUESTS` at a time: each needs to know of those before it.

    With `peers`, a table of so many locations, each slot is given a peer, as in `alloc_extend`.
    What begins a page after the last new one is the reserved slot: never `last + 1`, which is
    somebody else's.
    """
    before = tl.full([], 0, tl.int64)
    for start in range(0, n, REQUESTS):
        request = start + tl.arange(0, REQUESTS).to(tl.int64)
        begins = _begins(seq_lens, request, n, PAGE)
        page = before + tl.cumsum(begins.to(tl.int32)) - 1
        before += tl.sum(begins.to(tl.int32))
        is_new = begins & (page < n_pages)
        beside = (request < n) & (~begins)
        last = tl.load(last_loc + request, mask=beside, other=0).to(tl.int64)
        fresh = tl.load(new_pages + page, mask=is_new, other=0)
        slot = tl.where(begins, fresh * PAGE, last + 1)
        tl.store(out + request, slot, mask=request < n)
        if peers is not None:
            has_peer = beside & (last > 0) & (last < locations)
            peer = tl.load(peers + last, mask=has_peer, other=0)
            fresh = tl.load(peer_pages + page, mask=is_new, other=0)
            peer = tl.where(begins, fresh * PAGE, tl.where(peer > 0, peer + 1, 0))
            tl.store(peers + slot, peer, mask=(request < n) & (slot > 0) & (slot < locations))


def plan_alloc_decode(
    seq_lens: Tensor, last_loc: Tensor, new_pages: Tensor, page_size: int, out: Tensor
) -> Launch:
    """What `alloc_decode` returns, into `out`, `[requests]` int64."""
    return _plan(seq_lens, last_loc, new_pages, page_size, out, None, None)


def plan_alloc_decode_pair(
    seq_lens: Tensor,
    last_loc: Tensor,
    new_pages: Tensor,
    peer_pages: Tensor,
    peers: Tensor,
    page_size: int,
    out: Tensor,
) -> Launch:
    """What `alloc_decode_pair` returns, into `out`; `peers` is a dense `[locations]` int64."""
    return _plan(seq_lens, last_loc, new_pages, page_size, out, peer_pages, peers)


def _plan(
    seq_lens: Tensor,
    last_loc: Tensor,
    new_pages: Tensor,
    page_size: int,
    out: Tensor,
    peer_pages: Tensor | None,
    peers: Tensor | None,
) -> Launch:
    new_pages, peer_pages = dense_pages("alloc_decode", new_pages, peer_pages, peers)
    seq_lens, last_loc = seq_lens.contiguous(), last_loc.contiguous()
    n = out.shape[0]
    given: list[Any] = [seq_lens, last_loc, new_pages, out]
    given += [each for each in (peer_pages, peers) if each is not None]
    return Launch(
        kernel=alloc_decode_kernel,
        grid=(1 if n else 0,),
        arguments={
            "seq_lens": seq_lens,
            "last_loc": last_loc,
            "n": n,
            "new_pages": new_pages,
            "n_pages": new_pages.shape[0],
            "out": out,
            "peer_pages": peer_pages,
            "peers": peers,
            "locations": 0 if peers is None else peers.shape[0],
        },
        constants={"PAGE": page_size, "REQUESTS": _REQUESTS},
        device=the_device("alloc_decode", given),
        threads=_REQUESTS // 4,
    )
