"""Quantise rows to E2M1 with a scale per 16 elements."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from .blocks import as_blocks, largest
from .e2m1 import E2M1_MAX, pack_e2m1
from .e8m0 import e8m0_at_least, e8m0_value
from .quotient import quotient

__all__ = ["FP4_BLOCK", "FP4Scales", "fp4_scale_value", "quantise_fp4"]

FP4_BLOCK = 16
"""Elements that share a scale."""

FP4Scales: TypeAlias = Literal["fp4_mx16", "nvfp4"]
"""What scales are: powers of two (UE8M0), or e4m3fn numbers under one scale per tensor."""

_E4M3_MAX = 448.0
_SMALLEST_RATIO = 1e-10


def quantise_fp4(rows: Tensor, style: FP4Scales, tensor_scale: Tensor) -> tuple[Tensor, Tensor]:
    """`(elements, scales)` of `[..., width]` of any float dtype, both uint8.

    Elements are `[..., width // 2]`, `x / (scale * tensor_scale)` as `pack_e2m1` packs it; scales
    are `[..., width // 16]`. `tensor_scale` is positive and finite, of one element, float32.
    With `amax` the largest magnitude of a block divided by `tensor_scale`:

    `fp4_mx16`: the UE8M0 byte of the smallest power of two not below `amax / 6`, itself not below
    1e-10: no finite element saturates, and a block of zeros has `2 ** -33`, as in the engines'
    writers. The MX specification's own 4-bit format has blocks of 32, this one is not it.

    `nvfp4`: `amax / 6` as e4m3fn, to the nearest and not beyond 448 (NVIDIA, "Introducing NVFP4
    for Efficient and Accurate Low-Precision Inference"). Elements are divided by the
    rounded scale and may saturate; where it is zero, so are they.

    Infinities saturate under the largest scale (that of `fp4_mx16` reads them as infinities). A
    block with a NaN has a scale of NaN, since E2M1 has none: the block is NaN when it is read.
    """
    blocks = quotient(as_blocks(rows.to(torch.float32), FP4_BLOCK), tensor_scale)
    ratio = quotient(largest(blocks), E2M1_MAX)
    ratio = torch.where(blocks.isnan().any(-1, keepdim=True), torch.nan, ratio)
    scales = _mx(ratio) if style == "fp4_mx16" else _nv(ratio)
    divisor = fp4_scale_value(scales, style)
    exact = torch.where(divisor == 0, blocks.sign() * 0.0, blocks / divisor)
    return pack_e2m1(exact.flatten(-2)), scales.squeeze(-1)


def fp4_scale_value(scales: Tensor, style: FP4Scales) -> Tensor:
    """What the scale bytes mean, float32."""
    if style == "fp4_mx16":
        return e8m0_value(scales)
    return scales.view(torch.float8_e4m3fn).to(torch.float32)


def _mx(ratio: Tensor) -> Tensor:
    return e8m0_at_least(ratio.clamp(min=_SMALLEST_RATIO))


def _nv(ratio: Tensor) -> Tensor:
    return ratio.clamp(max=_E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)
