"""Compute locations from locations: of accepted drafts, of peers in another space, of pages.

A batch may end anywhere, so that a thread reads and writes one location at a time.
"""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .launch import Launch, the_device

__all__ = [
    "paged_locations_kernel",
    "peer_locations_kernel",
    "plan_paged_locations",
    "plan_peer_locations",
    "plan_prefix_locations",
    "prefix_locations_kernel",
]

_BLOCK = 512


@triton.jit(do_not_specialize=["n"])
def prefix_locations_kernel(loc, lens, out, n, DRAFTS: tl.constexpr, BLOCK: tl.constexpr):
    """Of `[requests, DRAFTS]` in order; those from `lens` on are 0."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    found = tl.load(loc + at, mask=at < n, other=0)
    committed = tl.load(lens + at // DRAFTS, mask=at < n, other=0)
    tl.store(out + at, tl.where(at % DRAFTS < committed, found, 0), mask=at < n)


@triton.jit(do_not_specialize=["n", "slots"])
def peer_locations_kernel(peers, loc, out, n, slots, BLOCK: tl.constexpr):
    """`peers[loc]`; 0 and what is past the end has none, below 0 is -1."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    slot = tl.load(loc + at, mask=at < n, other=0).to(tl.int64)
    inside = (slot > 0) & (slot < slots)
    peer = tl.load(peers + slot, mask=inside, other=0).to(tl.int64)
    tl.store(out + at, tl.where(slot < 0, -1, peer), mask=at < n)


@triton.jit(do_not_specialize=["n", "pages"])
def paged_locations_kernel(table, loc, out, n, pages, PAGE_SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """The slot behind an id, by the page behind its page; 0 without one."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    name = tl.load(loc + at, mask=at < n, other=-1).to(tl.int64)
    page = name // PAGE_SIZE
    inside = (name >= 0) & (page < pages)
    behind = tl.load(table + page, mask=inside, other=0).to(tl.int64)
    slot = behind * PAGE_SIZE + name % PAGE_SIZE
    tl.store(out + at, tl.where(behind > 0, slot, 0), mask=at < n)


def plan_prefix_locations(loc_2d: Tensor, lens: Tensor, out: Tensor) -> Launch:
    """`prefix_locations(loc_2d, lens)` to `out`, of as many elements and the same dtype."""
    return Launch(
        kernel=prefix_locations_kernel,
        grid=(triton.cdiv(out.numel(), _BLOCK),),
        arguments={
            "loc": loc_2d.contiguous(),
            "lens": lens.contiguous(),
            "out": out,
            "n": out.numel(),
        },
        constants={"DRAFTS": loc_2d.shape[1], "BLOCK": _BLOCK},
        device=the_device("prefix_locations", (loc_2d, lens, out)),
    )


def plan_peer_locations(peers: Tensor, loc: Tensor, out: Tensor) -> Launch:
    """`peer_locations(peers, loc)` to `out`, int64."""
    return Launch(
        kernel=peer_locations_kernel,
        grid=(triton.cdiv(out.numel(), _BLOCK),),
        arguments={
            "peers": peers.contiguous(),
            "loc": loc.contiguous(),
            "out": out,
            "n": out.numel(),
            "slots": peers.shape[0],
        },
        constants={"BLOCK": _BLOCK},
        device=the_device("peer_locations", (peers, loc, out)),
    )


def plan_paged_locations(table: Tensor, loc: Tensor, page_size: int, out: Tensor) -> Launch:
    """`paged_locations(table, loc, page_size)` to `out`, int64."""
    return Launch(
        kernel=paged_locations_kernel,
        grid=(triton.cdiv(out.numel(), _BLOCK),),
        arguments={
            "table": table.contiguous(),
            "loc": loc.contiguous(),
            "out": out,
            "n": out.numel(),
            "pages": table.shape[0],
        },
        constants={"PAGE_SIZE": page_size, "BLOCK": _BLOCK},
        device=the_device("paged_locations", (table, loc, out)),
    )
