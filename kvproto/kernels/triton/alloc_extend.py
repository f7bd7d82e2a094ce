"""Slots for the next tokens of each request of a batch, and their peers in a second space."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .given_pages import dense_pages
from .launch import Launch, next_power_of_2, the_device

__all__ = [
    "alloc_extend_kernel",
    "lens_before_kernel",
    "plan_alloc_extend",
    "plan_alloc_extend_pair",
]

_TILE = 1024
"""Slots of both spaces, or of the one, that a program has in registers at a time."""

_REQUESTS = 1024
"""Whose lengths are read at a time, however many there are: kernels do not follow that."""

_PROGRAMS = 512
"""Enough for any GPU: what a batch of fewer requests is split into."""


@triton.jit(do_not_specialize=["n"])
def lens_before_kernel(
    prefix_lens,
    seq_lens,
    n,
    before,
    PAGE: tl.constexpr,
    REQUESTS: tl.constexpr,
):
    """One program: `before` `[2, n]` has the tokens and the new pages of all earlier requests."""
    tokens_before = tl.full([], 0, tl.int64)
    pages_before = tl.full([], 0, tl.int64)
    for start in range(0, n, REQUESTS):
        request = start + tl.arange(0, REQUESTS).to(tl.int64)
        prefix = tl.load(prefix_lens + request, mask=request < n, other=0).to(tl.int64)
        seq = tl.load(seq_lens + request, mask=request < n, other=0).to(tl.int64)
        tokens = seq - prefix
        pages = (seq + (PAGE - 1)) // PAGE - (prefix + (PAGE - 1)) // PAGE
        tokens_to = tokens_before + tl.cumsum(tokens) - tokens
        pages_to = pages_before + tl.cumsum(pages) - pages
        tl.store(before + request, tokens_to, mask=request < n)
        tl.store(before + n + request, pages_to, mask=request < n)
        tokens_before += tl.sum(tokens)
        pages_before += tl.sum(pages)


@triton.jit(do_not_specialize=["n_pages", "n_slots", "locations"])
def alloc_extend_kernel(
    prefix_lens,
    seq_lens,
    last_loc,
    before,
    new_pages,
    n_pages,
    out,
    n_slots,
    peer_pages,
    peers,
    locations,
    PAGE: tl.constexpr,
    COLUMNS: tl.constexpr,
    PAGES: tl.constexpr,
):
    """Programs `(i, ..)` have every so many tiles of the pages that request `i` extends over.

    Its last page is continued; of the others, page after page is the next new one. With
    `peers`, a table of so many locations, each new slot is given a peer in it, in the same
    place on a page of `peer_pages` or beside the peer of `last_loc`; none where that has none.
    `before` is what `lens_before_kernel` left.
    """
    request = tl.program_id(0)
    prefix = tl.load(prefix_lens + request).to(tl.int64)
    seq = tl.load(seq_lens + request).to(tl.int64)
    tokens = tl.load(before + request)
    pages = tl.load(before + tl.num_programs(0) + request)
    first = prefix // PAGE
    inside = prefix - first * PAGE
    is_continued = (inside > 0) & (prefix < seq)
    last = tl.load(last_loc + request, mask=is_continued, other=0).to(tl.int64)
    if peers is not None:
        in_table = is_continued & (last > 0) & (last < locations)
        last_peer = tl.load(peers + last, mask=in_table, other=0)
    # New pages are counted from the first page that this request needs a new one for.
    pages -= (inside > 0).to(tl.int64)
    column = tl.arange(0, COLUMNS).to(tl.int64)[None, :]
    count = (seq + (PAGE - 1)) // PAGE - first
    step = tl.num_programs(1).to(tl.int64) * PAGES
    for start in range(tl.program_id(1).to(tl.int64) * PAGES, count, step):
        page = start + tl.arange(0, PAGES)
        token = ((first + page) * PAGE)[:, None] + column
        is_old = (page == 0) & (inside > 0)
        is_new = (page < count) & (~is_old) & (pages + page < n_pages)
        at = tokens + token - prefix
        kept = (token >= prefix) & (token < seq) & (at < n_slots) & (column < PAGE)
        base = tl.load(new_pages + pages + page, mask=is_new, other=0) * PAGE
        slot = tl.where(is_old, last + 1 - inside, base)[:, None] + column
        tl.store(out + at, slot, mask=kept)
        if peers is not None:
            peer_base = tl.load(peer_pages + pages + page, mask=is_new, other=0) * PAGE
            paired = (tl.where(is_old, last_peer, peer_base) > 0)[:, None]
            peer = tl.where(is_old, last_peer + 1 - inside, peer_base)[:, None] + column
            kept = kept & (slot > 0) & (slot < locations)
            tl.store(peers + slot, tl.where(paired, peer, 0), mask=kept)


def plan_alloc_extend(
    prefix_lens: Tensor,
    seq_lens: Tensor,
    last_loc: Tensor,
    new_pages: Tensor,
    page_size: int,
    out: Tensor,
) -> tuple[Launch, Launch]:
    """What `alloc_extend` returns, into `out`, `[extend_num_tokens]` int64.

    What exceeds `new_pages` or `out`, where lengths on the device are not those that were
    counted, is on the reserved page or left out.
    """
    return _plan((prefix_lens, seq_lens, last_loc), new_pages, page_size, out, None, None)


def plan_alloc_extend_pair(
    prefix_lens: Tensor,
    seq_lens: Tensor,
    last_loc: Tensor,
    new_pages: Tensor,
    peer_pages: Tensor,
    peers: Tensor,
    page_size: int,
    out: Tensor,
) -> tuple[Launch, Launch]:
    """What `alloc_extend_pair` returns, into `out`; `peers` is a dense `[locations]` int64."""
    lens = prefix_lens, seq_lens, last_loc
    return _plan(lens, new_pages, page_size, out, peer_pages, peers)


def _plan(
    lens: tuple[Tensor, Tensor, Tensor],
    new_pages: Tensor,
    page_size: int,
    out: Tensor,
    peer_pages: Tensor | None,
    peers: Tensor | None,
) -> tuple[Launch, Launch]:
    new_pages, peer_pages = dense_pages("alloc_extend", new_pages, peer_pages, peers)
    prefix_lens, seq_lens, last_loc = (each.contiguous() for each in lens)
    requests, tokens = prefix_lens.shape[0], out.shape[0]
    columns = next_power_of_2(page_size)
    tile = _TILE if peers is None else _TILE // 2
    pages = max(1, tile // columns)
    split = max(1, min(tokens // (pages * page_size), _PROGRAMS // max(1, requests)))
    given: list[Any] = [prefix_lens, seq_lens, last_loc, new_pages, out]
    given += [each for each in (peer_pages, peers) if each is not None]
    before = torch.empty((2, requests), dtype=torch.int64, device=out.device)
    summed = Launch(
        kernel=lens_before_kernel,
        grid=(1 if tokens else 0,),
        arguments={
            "prefix_lens": prefix_lens,
            "seq_lens": seq_lens,
            "n": requests,
            "before": before,
        },
        constants={"PAGE": page_size, "REQUESTS": _REQUESTS},
        device=the_device("alloc_extend", given),
        threads=_REQUESTS // 4,
    )
    return summed, Launch(
        kernel=alloc_extend_kernel,
        grid=(requests if tokens else 0, split),
        arguments={
            "prefix_lens": prefix_lens,
            "seq_lens": seq_lens,
            "last_loc": last_loc,
            "before": before,
            "new_pages": new_pages,
            "n_pages": new_pages.shape[0],
            "out": out,
            "n_slots": tokens,
            "peer_pages": peer_pages,
            "peers": peers,
            "locations": 0 if peers is None else peers.shape[0],
        },
        constants={"PAGE": page_size, "COLUMNS": columns, "PAGES": pages},
        device=summed.device,
    )
