"""A slot for the next token of each request in two spaces, and which is whose peer."""

from __future__ import annotations

import torch
from torch import Tensor

from .alloc_decode import alloc_decode
from .peer_table import last_peers, pair_peers
from .triton_devices import served_by_triton

__all__ = ["alloc_decode_pair"]


def alloc_decode_pair(
    seq_lens: Tensor,
    last_loc: Tensor,
    new_pages: Tensor,
    peer_pages: Tensor,
    peers: Tensor,
    page_size: int,
) -> Tensor:
    """What `alloc_decode` gives for `new_pages`; `peers[slot]` is the same for `peer_pages`.

    `peers` is a table as in `peer_table`, dense. Where the last token has no peer, the next one has
    none, and no token on slot 0 has. A Triton kernel does it in one launch.

    :raises ValueError: in a kernel, for a table that is not dense, or another number of
        `peer_pages` than `new_pages`; nothing is written.
    """
    if served_by_triton(peers):
        from .triton.alloc_decode import plan_alloc_decode_pair
        from .triton.launch import run

        out = torch.empty(seq_lens.shape, dtype=torch.int64, device=seq_lens.device)
        run(
            plan_alloc_decode_pair(seq_lens, last_loc, new_pages, peer_pages, peers, page_size, out)
        )
        return out
    last = last_peers(peers, last_loc, page_size)
    slots = alloc_decode(seq_lens, last_loc, new_pages, page_size)
    pair_peers(peers, slots, alloc_decode(seq_lens, last, peer_pages, page_size), page_size)
    return slots
