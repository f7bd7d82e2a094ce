"""Quantise latent rows into packed bytes, a scale per block."""

from __future__ import annotations

import torch
from torch import Tensor

from .fp8 import to_fp8
from .packed_latent import LATENT_BLOCK
from .quotient import quotient

__all__ = ["pack_latent_rows"]

_LARGEST_FP8 = torch.finfo(torch.float8_e4m3fn).max
_LARGEST_INVERSE = torch.finfo(torch.float32).max
_LARGEST_LATENT = torch.finfo(torch.bfloat16).max


def pack_latent_rows(latent: Tensor, rope: Tensor) -> Tensor:
    """`[n, 1, rank]` and `[n, 1, rope]` as uint8 `[n, 1, packed width]`, see `packed_latent`.

    The scale of a block is its largest magnitude / 448 in float32, and an element is stored as
    `x * (1 / scale)`, to the nearest e4m3fn. Infinities count as the largest bf16 number and are
    stored so; NaN stays NaN and leaves the rest of its block alone. A block of zeros is zero bytes,
    scale included. The rope part is stored as bf16. Inputs may have any float dtype and strides.
    """
    shape = (*latent.shape[:-1], latent.shape[-1] // LATENT_BLOCK, LATENT_BLOCK)
    blocks = latent.to(torch.float32).reshape(shape).clamp(-_LARGEST_LATENT, _LARGEST_LATENT)
    scales = quotient(blocks.nan_to_num(nan=0.0).abs().amax(-1), _LARGEST_FP8)
    if not scales.numel():  # torch keeps strides of 0 there, of which it makes no view as bytes
        scales = torch.empty_like(scales, memory_format=torch.contiguous_format)
    # Where 1 / scale is infinite (zeros, subnormals) 0 * inf would store NaN for a plain 0.
    inverse = scales.reciprocal().clamp(max=_LARGEST_INVERSE)
    elements = to_fp8(blocks * inverse.unsqueeze(-1), torch.float8_e4m3fn).flatten(-2)
    parts = (elements, scales, rope.to(torch.bfloat16))
    return torch.cat([part.contiguous().view(torch.uint8) for part in parts], dim=-1)
