"""Read E2M1 rows with a scale per 16 elements."""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import as_blocks
from .e2m1 import unpack_e2m1
from .quantise_fp4 import FP4_BLOCK, FP4Scales, fp4_scale_value

__all__ = ["dequantise_fp4"]


def dequantise_fp4(
    elements: Tensor, scales: Tensor, style: FP4Scales, tensor_scale: Tensor, dtype: torch.dtype
) -> Tensor:
    """Fresh rows `[..., 2 * n]` in `dtype`: each element times its block's and the tensor's scale.

    `elements` are uint8 `[..., n]`, `scales` uint8 `[..., 2 * n // 16]` in the style named;
    `tensor_scale` has one element, float32. A scale of NaN makes its whole block NaN.
    """
    blocks = as_blocks(unpack_e2m1(elements), FP4_BLOCK)
    exact = blocks * fp4_scale_value(scales, style).unsqueeze(-1) * tensor_scale
    return exact.flatten(-2).to(dtype)
