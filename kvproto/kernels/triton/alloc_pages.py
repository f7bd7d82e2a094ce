"""All slots of some pages, and their peers in a second space."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from .given_pages import dense_pages
from .launch import Launch, next_power_of_2, the_device

__all__ = ["alloc_pages_kernel", "plan_alloc_pages_pair"]

_TILE = 1024
"""Slots of a program."""


@triton.jit(do_not_specialize=["n", "locations"])
def alloc_pages_kernel(
    new_pages,
    peer_pages,
    n,
    out,
    peers,
    locations,
    PAGE: tl.constexpr,
    COLUMNS: tl.constexpr,
    PAGES: tl.constexpr,
):
    """A program has `PAGES` of `n`; a page without a peer, 0, leaves its slots without one."""
    at = tl.program_id(0).to(tl.int64) * PAGES + tl.arange(0, PAGES)
    column = tl.arange(0, COLUMNS).to(tl.int64)[None, :]
    base = tl.load(new_pages + at, mask=at < n, other=0) * PAGE
    peer_base = tl.load(peer_pages + at, mask=at < n, other=0) * PAGE
    slot = base[:, None] + column
    kept = (at < n)[:, None] & (column < PAGE)
    tl.store(out + (at * PAGE)[:, None] + column, slot, mask=kept)
    peer = tl.where((peer_base > 0)[:, None], peer_base[:, None] + column, 0)
    tl.store(peers + slot, peer, mask=kept & (slot > 0) & (slot < locations))


def plan_alloc_pages_pair(
    new_pages: Tensor, peer_pages: Tensor, peers: Tensor, page_size: int, out: Tensor
) -> Launch:
    """What `alloc_pages_pair` returns, into `out`, `[pages * page_size]` int64."""
    pages_of_both = dense_pages("alloc_pages_pair", new_pages, peer_pages, peers)
    n, columns = new_pages.shape[0], next_power_of_2(page_size)
    pages = max(1, _TILE // columns)
    given: list[Any] = [new_pages, peer_pages, peers, out]
    return Launch(
        kernel=alloc_pages_kernel,
        grid=(triton.cdiv(n, pages),),
        arguments={
            "new_pages": pages_of_both[0],
            "peer_pages": pages_of_both[1],
            "n": n,
            "out": out,
            "peers": peers,
            "locations": peers.shape[0],
        },
        constants={"PAGE": page_size, "COLUMNS": columns, "PAGES": pages},
        device=the_device("alloc_pages_pair", given),
    )
