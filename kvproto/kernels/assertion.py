"""A check of tensor values that does not break a graph or make the host wait."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["holds"]


def holds(condition: Tensor) -> bool:
    """Whether a one-element boolean tensor on the CPU is true, as seen by an eager caller.

    Under tracing and in fake modes the check becomes part of the graph and the answer is True.
    """
    try:
        torch.ops.aten._assert_async.msg(condition, "kvproto: a checked condition is false")
    except RuntimeError:
        return False
    return True
