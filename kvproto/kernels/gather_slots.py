"""Read recurrent state of some slots."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["gather_slots"]


def gather_slots(state: Tensor, slots: Tensor) -> Tensor:
    """`state[:, slots[i]]`, fresh; `state` is `[layers, slots, ...]`, its slot 0 zero.

    `slots` is `[n]`, int32 or int64, in range; 0 and below read the reserved slot.
    """
    return state.index_select(1, slots.clamp(min=0).to(torch.int64))
