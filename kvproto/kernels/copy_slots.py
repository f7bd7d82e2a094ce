"""Copy recurrent state between slots of the same tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from .locations import check_pairs

__all__ = ["copy_slots"]


def copy_slots(state: Tensor, src: Tensor, dst: Tensor) -> None:
    """`state[:, dst[i]] = state[:, src[i]]`, all sources read before any target is written.

    `state` is `[layers, slots, ...]`, its slot 0 zero; `src` and `dst` are `[n]`, int32 or int64,
    in range. Pairs whose target is 0 or below are dropped; a source of 0 or below reads the
    reserved slot. Fixed-shape.

    :raises ValueError: for another number of sources than of targets; nothing is copied.
    """
    check_pairs(dst, src)
    index = dst.clamp(min=0).to(torch.int64)
    # A dropped pair rewrites the reserved slot with itself.
    source = torch.where(dst > 0, src, 0).clamp(min=0).to(torch.int64)
    state.index_copy_(1, index, state.index_select(1, source))
