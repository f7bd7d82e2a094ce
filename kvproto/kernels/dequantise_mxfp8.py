"""Read e4m3fn rows with a power of two per 32 elements."""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import as_blocks
from .e8m0 import e8m0_value
from .quantise_mxfp8 import MXFP8_BLOCK

__all__ = ["dequantise_mxfp8"]


def dequantise_mxfp8(elements: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """Fresh rows `[..., width]` in `dtype`: each element times its block's scale.

    `elements` are e4m3fn bytes, uint8 `[..., width]`; `scales` UE8M0 bytes, uint8
    `[..., width // 32]`, 255 making its whole block NaN (OCP Microscaling Formats 1.0, E8M0).
    """
    blocks = as_blocks(elements.view(torch.float8_e4m3fn).to(torch.float32), MXFP8_BLOCK)
    return (blocks * e8m0_value(scales).unsqueeze(-1)).flatten(-2).to(dtype)
