"""Quantise to an fp8 format, with the pool's policy instead of the platform's cast."""

from __future__ import annotations

import math
from typing import TypeAlias

import torch
from torch import Tensor

from .assertion import holds
from .quotient import quotient

__all__ = ["FP8_DTYPES", "Scale", "checked_scale", "to_fp8"]

FP8_DTYPES = (
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
)

Scale: TypeAlias = float | Tensor | None
"""A per-tensor scale: a number, a tensor of one element, or None for 1."""


def to_fp8(values: Tensor, dtype: torch.dtype, scale: Scale = None) -> Tensor:
    """`values / scale`, saturated to the format's finite range, rounded to nearest even.

    Infinities saturate, NaN stays NaN. The input is not modified. Reading is `stored * scale`.

    :raises ValueError: for a scale that is not one positive finite number.
    """
    limit = torch.finfo(dtype).max
    exact = values.to(torch.float32)
    if scale is not None:
        exact = quotient(exact, checked_scale(scale))
    return exact.clamp(-limit, limit).to(dtype)


def checked_scale(scale: float | Tensor) -> float | Tensor:
    """The scale itself, a tensor as 0-d float32.

    :raises ValueError: for one that is not one positive finite number.
    """
    if isinstance(scale, Tensor):
        return _checked_tensor(scale)
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale {scale} must be a positive finite number")
    return scale


def _checked_tensor(scale: Tensor) -> Tensor:
    if scale.numel() != 1:
        raise ValueError(f"scale has shape {tuple(scale.shape)}, must hold one element")
    flat = scale.detach().reshape(()).to(torch.float32)
    if flat.device.type == "cpu" and not holds(torch.isfinite(flat) & (flat > 0)):
        raise ValueError(f"scale {flat.item()} must be a positive finite number")
    return flat
