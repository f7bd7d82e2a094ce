"""Write rows to locations, except to the reserved one."""

from __future__ import annotations

import torch
from torch import Tensor

from .row_words import row_words

__all__ = ["store_rows"]


def store_rows(target: Tensor, loc: Tensor, rows: Tensor) -> None:
    """`target[loc[i]] = rows[i]` for every `i` with `loc[i] >= 1`; the rest is dropped.

    `target` is `[slots, ...]`, its slot 0 zero; `rows` is `[n, ...]` with the same trailing shape
    and dtype, any strides; `loc` is `[n]`, int32 or int64, below `slots`. Of duplicate
    locations one row wins. Fixed-shape: dropped rows are turned into zeros for slot 0.
    """
    into, given = row_words(target, rows)
    kept = (loc > 0).view(-1, *(1,) * (given.dim() - 1))
    index = loc.clamp(min=0).to(torch.int64)
    into.index_copy_(0, index, torch.where(kept, given, torch.zeros_like(given[:1])))
