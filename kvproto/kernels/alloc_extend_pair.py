"""Slots for the next tokens of each request in two spaces, and which is whose peer."""

from __future__ import annotations

from torch import Tensor

from .alloc_extend import alloc_extend
from .peer_table import last_peers, pair_peers
from .triton_devices import served_by_triton

__all__ = ["alloc_extend_pair"]


def alloc_extend_pair(
    prefix_lens: Tensor,
    seq_lens: Tensor,
    last_loc: Tensor,
    new_pages: Tensor,
    peer_pages: Tensor,
    peers: Tensor,
    page_size: int,
    extend_num_tokens: int,
) -> Tensor:
    """What `alloc_extend` gives for `new_pages`; `peers[slot]` is the same for `peer_pages`.

    `peers` is a table as in `peer_table`, dense. What continues on a page whose last token has no
    peer has none. Triton kernels do it in two launches.

    :raises ValueError: in a kernel, for a table that is not dense, or another number of
        `peer_pages` than `new_pages`; nothing is written.
    """
    if served_by_triton(peers):
        from .triton.alloc_extend import plan_alloc_extend_pair
        from .triton.launch import run

        out = new_pages.new_empty(extend_num_tokens)
        lens = prefix_lens, seq_lens, last_loc
        for launch in plan_alloc_extend_pair(*lens, new_pages, peer_pages, peers, page_size, out):
            run(launch)
        return out
    last = last_peers(peers, last_loc, page_size)
    counts = page_size, extend_num_tokens
    slots = alloc_extend(prefix_lens, seq_lens, last_loc, new_pages, *counts)
    found = alloc_extend(prefix_lens, seq_lens, last, peer_pages, *counts)
    pair_peers(peers, slots, found, page_size)
    return slots
