"""Dequantise packed latent rows."""

from __future__ import annotations

import torch
from torch import Tensor

from .fp8 import FP8_DTYPES, to_fp8
from .packed_latent import LATENT_BLOCK, scales_at

__all__ = ["unpack_latent_rows"]


def unpack_latent_rows(packed: Tensor, rank: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """uint8 `[n, 1, packed width]` as `([n, 1, rank], [n, 1, rope])` in `dtype`, dense.

    A latent is `stored * scale` of its block, in float32 and then in `dtype`; fp8 saturates.
    """
    scales_end = scales_at(rank) + 4 * (rank // LATENT_BLOCK)
    # Copies: a view in a wider type wants aligned, dense bytes.
    elements = packed[..., :rank].contiguous().view(torch.float8_e4m3fn)
    scales = packed[..., rank:scales_end].contiguous().view(torch.float32)
    rope = packed[..., scales_end:].contiguous().view(torch.bfloat16)
    blocks = elements.to(torch.float32).view(*scales.shape, LATENT_BLOCK)
    latent = (blocks * scales.unsqueeze(-1)).flatten(-2)
    if dtype in FP8_DTYPES:
        return to_fp8(latent, dtype), to_fp8(rope, dtype)
    return latent.to(dtype), rope.to(dtype)
