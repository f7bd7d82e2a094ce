"""Quantise rows to e4m3fn with a power of two per 32 elements."""

from __future__ import annotations

import torch
from torch import Tensor

from .blocks import as_blocks, largest
from .e8m0 import e8m0_at_least, e8m0_value
from .quotient import quotient

__all__ = ["MXFP8_BLOCK", "mxfp8_elements", "quantise_mxfp8"]

MXFP8_BLOCK = 32
"""Elements that share a scale (OCP Microscaling Formats 1.0, MXFP8)."""

_MAX = 448.0
_SMALLEST = 1e-30


def quantise_mxfp8(rows: Tensor) -> tuple[Tensor, Tensor]:
    """`(elements, scales)` of `[..., width]` of any float dtype, both uint8.

    Elements are `[..., width]`, e4m3fn bytes of `x / scale`; scales `[..., width // 32]`, UE8M0
    bytes of the smallest power of two with which no finite element of the block saturates:
    rounded up, as in "Recipes for Pre-training LLMs with MXFP8" (arXiv 2506.08027) and in the
    engines' kernels, where the MX specification's own conversion rounds down and saturates. A
    block without a magnitude of 1e-30 has the scale of one that has it, `2 ** -108`: so have
    those kernels, and a block of zeros is not divided by zero. Infinities saturate under
    the largest scale, a product that float32 does not hold: they are read as infinities. NaN
    stays NaN and does not touch its neighbours.
    """
    blocks = as_blocks(rows.to(torch.float32), MXFP8_BLOCK)
    scales = e8m0_at_least(quotient(largest(blocks).clamp(min=_SMALLEST), _MAX))
    return _elements(blocks, scales), scales.squeeze(-1)


def mxfp8_elements(rows: Tensor, scales: Tensor) -> Tensor:
    """e4m3fn bytes, uint8 `[..., width]`, of `rows / scale` under scales that are given.

    `scales` are UE8M0 bytes, uint8 `[..., width // 32]`. Elements saturate; NaN stays NaN, and
    under a scale of NaN all are.
    """
    return _elements(as_blocks(rows.to(torch.float32), MXFP8_BLOCK), scales.unsqueeze(-1))


def _elements(blocks: Tensor, scales: Tensor) -> Tensor:
    exact = (blocks / e8m0_value(scales)).clamp(-_MAX, _MAX)
    return exact.to(torch.float8_e4m3fn).view(torch.uint8).flatten(-2)
