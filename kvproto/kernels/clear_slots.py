"""Zero the recurrent state of some slots."""

from __future__ import annotations

import torch
from torch import Tensor

from .triton_devices import served_by_triton

__all__ = ["clear_slots"]


def clear_slots(state: Tensor, slots: Tensor) -> None:
    """`state[:, slots[i]] = 0`; `state` is `[layers, slots, ...]`.

    `slots` is `[n]`, int32 or int64, in range; 0 and below clear the reserved slot, which is
    zero anyway. Fixed-shape. A Triton kernel wants each slot of a layer dense.

    :raises ValueError: for state that the kernel does not serve.
    """
    if served_by_triton(slots):
        from .triton.launch import run
        from .triton.slots import plan_clear_slots

        if state.numel():
            run(plan_clear_slots(state, slots.contiguous()))
        return
    state.index_fill_(1, slots.clamp(min=0).to(torch.int64), 0)
