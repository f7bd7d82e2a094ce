"""Copy recurrent state between slots of the same tensor."""

from __future__ import annotations

import torch
from torch import Tensor

from .locations import check_pairs
from .triton_devices import served_by_triton

__all__ = ["copy_slots"]


def copy_slots(state: Tensor, src: Tensor, dst: Tensor) -> None:
    """`state[:, dst[i]] = state[:, src[i]]`, all sources read before any target is written.

    `state` is `[layers, slots, ...]`, its slot 0 zero; `src` and `dst` are `[n]`, int32 or int64,
    in range. Pairs whose target is 0 or below are dropped; a source of 0 or below reads the
    reserved slot. Fixed-shape. A Triton kernel copies up to 256 pairs in one launch for all layers,
    each slot of which is dense; more of them are staged, in two for every 256 MiB.

    :raises ValueError: for another number of sources than of targets, or state that the kernel
        does not serve; nothing is copied.
    """
    check_pairs(dst, src)
    if served_by_triton(dst):
        if state.numel():
            _launch(state, src.contiguous(), dst.contiguous())
        return
    index = dst.clamp(min=0).to(torch.int64)
    # A dropped pair rewrites the reserved slot with itself.
    source = torch.where(dst > 0, src, 0).clamp(min=0).to(torch.int64)
    state.index_copy_(1, index, state.index_select(1, source))


def _launch(state: Tensor, src: Tensor, dst: Tensor) -> None:
    from .triton.launch import run
    from .triton.slots import plan_copy_slots

    for launch in plan_copy_slots(state, src, dst):
        run(launch)
