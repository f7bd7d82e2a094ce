"""A slot for the next token of each request: beside its last one, or on a new page."""

from __future__ import annotations

import torch
from torch import Tensor

from .triton_devices import served_by_triton

__all__ = ["alloc_decode"]


def alloc_decode(seq_lens: Tensor, last_loc: Tensor, new_pages: Tensor, page_size: int) -> Tensor:
    """`[requests]` int64: the slot of token `seq_lens[i] - 1`, whose predecessor is `last_loc[i]`.

    `new_pages` are as many as there are tokens that begin a page, taken in order. Fixed-shape:
    nothing is read back to the host. Where there are fewer, a kernel gives the tokens that have
    none the reserved slot 0, as every device does where there are none at all.

    :raises IndexError: on the CPU, for some new pages but too few.
    """
    if served_by_triton(seq_lens):
        from .triton.alloc_decode import plan_alloc_decode
        from .triton.launch import run

        out = torch.empty(seq_lens.shape, dtype=torch.int64, device=seq_lens.device)
        run(plan_alloc_decode(seq_lens, last_loc, new_pages, page_size, out))
        return out
    begins = (seq_lens - 1) % page_size == 0
    beside = last_loc.to(torch.int64) + 1
    if new_pages.shape[0] == 0:
        return beside * ~begins
    rank = (torch.cumsum(begins, 0) - 1).clamp_(min=0)
    return torch.where(begins, new_pages.index_select(0, rank) * page_size, beside)
