"""All slots of some pages of one space, and which slots of a second are their peers."""

from __future__ import annotations

import torch
from torch import Tensor

from .page_slots import page_slots
from .peer_table import pair_peers
from .triton_devices import served_by_triton

__all__ = ["alloc_pages_pair"]


def alloc_pages_pair(
    new_pages: Tensor, peer_pages: Tensor, peers: Tensor, page_size: int
) -> Tensor:
    """`[pages * page_size]` int64, page after page; `peers[slot]` is its place on `peer_pages`.

    Both are `[pages]` int64; `peers` is a table as in `peer_table`, dense. A page whose peer is 0
    has none. A Triton kernel does it in one launch.

    :raises ValueError: in a kernel, for a table that is not dense, or another number of
        `peer_pages` than `new_pages`; nothing is written.
    """
    if served_by_triton(peers):
        from .triton.alloc_pages import plan_alloc_pages_pair
        from .triton.launch import run

        out = new_pages.new_empty(new_pages.shape[0] * page_size)
        run(plan_alloc_pages_pair(new_pages, peer_pages, peers, page_size, out))
        return out
    offsets = torch.arange(page_size, device=new_pages.device)
    slots = page_slots(new_pages, offsets)
    pair_peers(peers, slots, page_slots(peer_pages, offsets), page_size)
    return slots
