"""Updates at indices, in ND format."""

from __future__ import annotations

import torch
from torch import Tensor

from .documented import Arguments

__all__ = ["npu_scatter_nd_update_"]

_DTYPES = (
    *(torch.float32, torch.float16, torch.bool),
    *(torch.bfloat16, torch.int64, torch.int8),  # on A2 and A3
)


def npu_scatter_nd_update_(input: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """`input[indices[i...]] = updates[i...]` over the last axis of `indices`, all in range.

    Neither uint8 nor fp8, on no product. Of duplicated indices any one wins.
    """
    given = Arguments("npu_scatter_nd_update_", input=input, indices=indices, updates=updates)
    given.ranks(input=range(1, 9), indices=range(2, 9))
    given.dtypes(["input", "updates"], _DTYPES)
    given.dtypes(["indices"], (torch.int32, torch.int64))
    axes = indices.shape[-1]
    bound = f"at most {input.dim()}, the rank of input"
    given.demand(1 <= axes <= input.dim(), "indices.shape[-1]", axes, bound)
    expected = (*indices.shape[:-1], *input.shape[axes:])
    given.shape("updates", expected, "indices.shape[:-1] + input.shape[indices.shape[-1]:]")
    by_axis = indices.reshape(-1, axes).to(torch.int64).unbind(1)
    for axis, one in enumerate(by_axis):
        given.within(f"indices[..., {axis}]", one, 0, input.shape[axis])
    input.index_put_(by_axis, updates.reshape(-1, *input.shape[axes:]))
    return input
