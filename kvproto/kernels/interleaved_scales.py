"""Where block scales lie in a page that tensor cores read as atoms of 32 tokens."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["ATOM", "gather_interleaved_scales", "store_interleaved_scales"]

ATOM = 32
"""Tokens of an atom: pages are whole atoms."""


def store_interleaved_scales(target: Tensor, loc: Tensor, rows: Tensor) -> None:
    """Write the scales of token `loc[i]`, for every `i` with `loc[i] >= 1`; the rest is dropped.

    `target` is uint8 `[pages, heads, 32, page_size // 32, blocks]`, dense: token `t` of a page is
    at `[page, head, t % 32, t // 32]`. With pages of 128 and four blocks a page of a head is the
    128 x 4 tile in which block-scaled matrix products read scales (cuBLAS, "1D Block Scaling
    Factors Layout"). `rows` is uint8 `[n, heads, blocks]`; `loc` is `[n]`, int32 or int64, below
    the slots. Fixed-shape.
    """
    kept = (loc > 0).view(-1, 1, 1)
    flat = target.view(-1, target.shape[-1])
    given = torch.where(kept, rows, torch.zeros_like(rows[:1]))
    flat.index_copy_(0, _places(target, loc), given.reshape(-1, target.shape[-1]))


def gather_interleaved_scales(source: Tensor, loc: Tensor) -> Tensor:
    """The scales of tokens `loc`, uint8 `[n, heads, blocks]`, fresh; of slot 0 for 0 and below."""
    flat = source.view(-1, source.shape[-1])
    return flat.index_select(0, _places(source, loc)).view(-1, source.shape[1], source.shape[-1])


def _places(buffer: Tensor, loc: Tensor) -> Tensor:
    """The row of each token and head, in the buffer seen as rows of one token's blocks."""
    _, heads, _, chunks, _ = buffer.shape
    page_size = ATOM * chunks
    slot = loc.clamp(min=0).to(torch.int64).view(-1, 1)
    page, token = slot // page_size, slot % page_size
    head = torch.arange(heads, device=loc.device)
    return ((page * heads + head) * page_size + token % ATOM * chunks + token // ATOM).flatten()
