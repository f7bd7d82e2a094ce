"""4-bit floats: E2M1, two in a byte."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["E2M1_MAX", "pack_e2m1", "unpack_e2m1"]

E2M1_MAX = 6.0
"""The largest number; codes 0 to 7 are 0, 0.5, 1, 1.5, 2, 3, 4 and 6, bit 3 is the sign."""


def pack_e2m1(values: Tensor) -> Tensor:
    """Bytes of `[..., 2 * n]` float32 as uint8 `[..., n]`: the even element is the low nibble.

    Rounded to the nearest of the eight magnitudes, of two equally near to the one whose code is
    even; beyond 6 saturated; zero keeps its sign (OCP Microscaling Formats 1.0, FP4 and
    its rounding). The format has no NaN: one becomes 0, and its scale has to say so.
    """
    size = torch.where(values.isnan(), 0.0, values.abs().clamp(max=E2M1_MAX))
    # Steps are a half below 2, one below 4 and two above; round() goes to the even neighbour.
    code = torch.where(size < 4, size.round() + 2, (size / 2).round() + 4)
    code = torch.where(size < 2, (size * 2).round(), code).to(torch.uint8)
    negative = values.signbit() & ~values.isnan()
    code = code | (negative.to(torch.uint8) << 3)
    return code[..., 0::2] | (code[..., 1::2] << 4)


def unpack_e2m1(packed: Tensor) -> Tensor:
    """What the nibbles of uint8 `[..., n]` mean, float32 `[..., 2 * n]`, the low one first."""
    code = torch.stack([packed & 0x0F, packed >> 4], dim=-1).flatten(-2)
    step = (code & 0x07).to(torch.float32)
    size = torch.where(step < 6, step - 2, (step - 4) * 2)
    size = torch.where(step < 4, step / 2, size)
    return torch.where(code > 7, -size, size)
