"""Zero the recurrent state of some slots."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["clear_slots"]


def clear_slots(state: Tensor, slots: Tensor) -> None:
    """`state[:, slots[i]] = 0`; `state` is `[layers, slots, ...]`.

    `slots` is `[n]`, int32 or int64, in range; 0 and below clear the reserved slot, which is
    zero anyway. Fixed-shape.
    """
    state.index_fill_(1, slots.clamp(min=0).to(torch.int64), 0)
