"""Write index keys and their scales."""

from __future__ import annotations

import torch
from torch import Tensor

from .index_page import page_parts

__all__ = ["store_index_keys"]


def store_index_keys(pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor) -> None:
    """Put the bytes of key and scale `i` at index slot `loc[i]`, if that is at least 1.

    `pages` is uint8 `[pages, bytes of a page]`, its slot 0 zero; `keys` is uint8 `[n, width]`,
    `scales` uint8 `[n, 4]`, of any strides; `loc` is `[n]`, int32 or int64, in range. Of
    duplicate slots one wins whole. Fixed-shape: what is dropped is zeros for slot 0.
    """
    kept, slots = (loc > 0).unsqueeze(-1), loc.clamp(min=0)
    parts = page_parts(pages, keys.shape[1])
    for part, given in zip(parts, (keys, scales), strict=True):
        rows = torch.where(kept, given, torch.zeros_like(given[:1]))
        part.units.index_copy_(0, part.rows(slots), rows.reshape(-1, part.units.shape[1]))
