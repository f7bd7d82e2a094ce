"""Write rows to locations, except to the reserved one."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from .few_rows import FEW, store_few
from .locations import INDEX_DTYPES, check_locations
from .on_host import on_host
from .row_items import store_items
from .row_words import row_words

__all__ = ["store_rows"]


def store_rows(target: Tensor, loc: Tensor, rows: Tensor) -> None:
    """`target[loc[i]] = rows[i]` for every `i` with `loc[i] >= 1`; the rest is dropped.

    `target` is `[slots, ...]`, its slot 0 zero; `rows` is `[n, ...]` with the same trailing shape
    and dtype, any strides; `loc` is `[n]`, int32 or int64, below `slots`. Of duplicate
    locations one row wins. Fixed-shape on a device: what is dropped is zeros for slot 0.

    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    if _stored_on_host(target, loc, rows):
        return
    check_locations(loc, target.shape[0])
    into, given = row_words(target, rows)
    kept = (loc > 0).view(-1, *(1,) * (given.dim() - 1))
    index = loc.clamp(min=0).to(torch.int64)
    into.index_copy_(0, index, torch.where(kept, given, torch.zeros_like(given[:1])))


def _stored_on_host(target: Tensor, loc: Tensor, rows: Tensor) -> bool:
    if loc.dim() != 1 or loc.dtype not in INDEX_DTYPES or not on_host(target, loc):
        return False
    n, given = loc.numel(), rows.nbytes
    if rows.dtype != target.dtype or given * target.shape[0] != target.nbytes * n:
        return False
    if given and n <= FEW:
        slots = cast("list[int]", loc.tolist())  # pyright: ignore[reportUnknownMemberType]
        store_few(target, slots, rows.contiguous())
    elif given:
        store_items(target, loc, rows.contiguous())
    return True
