"""Slots for the next tokens of each request of a batch: its last page first, then new ones."""

from __future__ import annotations

import torch
from torch import Tensor

from .triton_devices import served_by_triton

__all__ = ["alloc_extend"]


def alloc_extend(
    prefix_lens: Tensor,
    seq_lens: Tensor,
    last_loc: Tensor,
    new_pages: Tensor,
    page_size: int,
    extend_num_tokens: int,
) -> Tensor:
    """`[extend_num_tokens]` int64 slots of tokens `prefix_lens[i] .. seq_lens[i] - 1`, in order.

    The first three are `[requests]`, `prefix_lens <= seq_lens`; `last_loc[i]` is the slot of the
    last prefix token and counts only where the prefix ends inside a page. `new_pages` are as many
    as the batch needs, taken in order. The work per token is one copy and one addition, the rest
    is per page. Fixed-shape in the lengths given: nothing is read back to the host.
    """
    if served_by_triton(prefix_lens):
        from .triton.alloc_extend import plan_alloc_extend
        from .triton.launch import run

        out = new_pages.new_empty(extend_num_tokens)
        for launch in plan_alloc_extend(prefix_lens, seq_lens, last_loc, new_pages, page_size, out):
            run(launch)
        return out
    prefix_lens, seq_lens = prefix_lens.to(torch.int64), seq_lens.to(torch.int64)
    old_pages = (prefix_lens + (page_size - 1)) // page_size
    pages = (seq_lens + (page_size - 1)) // page_size - old_pages
    # Runs of consecutive slots: of each request what its last page still takes, then its new
    # pages, of which the last may be cut short.
    ends = torch.cumsum(pages + 1, 0)
    first, last = ends - (pages + 1), ends - 1
    runs = new_pages.shape[0] + prefix_lens.shape[0]
    lengths = new_pages.new_full((runs,), page_size)
    lengths.index_copy_(0, last, seq_lens - (old_pages + pages - 1) * page_size)
    lengths.index_copy_(0, first, torch.minimum(old_pages * page_size, seq_lens) - prefix_lens)
    starts = _starts(new_pages * page_size, pages, first, last_loc.to(torch.int64) + 1, runs)
    starts -= torch.cumsum(lengths, 0) - lengths
    slots = torch.repeat_interleave(starts, lengths, output_size=extend_num_tokens)
    return slots.add_(torch.arange(extend_num_tokens, device=slots.device))


def _starts(fresh: Tensor, pages: Tensor, first: Tensor, continued: Tensor, runs: int) -> Tensor:
    """The first slot of each run: request `i` has one run to continue and `pages[i]` fresh ones."""
    owner = torch.repeat_interleave(pages, output_size=fresh.shape[0])
    starts = fresh.new_empty(runs)
    starts.index_copy_(0, first, continued)
    starts.index_copy_(0, owner + torch.arange(1, fresh.shape[0] + 1, device=fresh.device), fresh)
    return starts
