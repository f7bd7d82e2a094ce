"""Powers of two as bytes: UE8M0, the scale type of the MX formats."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["e8m0_at_least", "e8m0_value"]

_LARGEST = 254
_MANTISSA_BITS = 23


def e8m0_at_least(ratio: Tensor) -> Tensor:
    """The byte of the smallest power of two that is not below `ratio`, float32 and positive.

    Byte `b` is `2 ** (b - 127)`, and 255 is NaN (OCP Microscaling Formats 1.0, E8M0).
    What is beyond `2 ** 127`, infinity included, gives 254; NaN gives 255. A float32 holds
    the same biased exponent, so that rounding up adds 1 wherever its mantissa is not zero.
    """
    bits = ratio.view(torch.int32)
    exponent = bits >> _MANTISSA_BITS
    mantissa = bits & ((1 << _MANTISSA_BITS) - 1)
    # Below 2 ** -126 the mantissa's top bit is the exponent: half of it is 2 ** -127, byte 0.
    rounded = torch.where(exponent == 0, mantissa > 1 << (_MANTISSA_BITS - 1), mantissa > 0)
    byte = (exponent + rounded).clamp(max=_LARGEST)
    return torch.where(ratio.isnan(), 255, byte).to(torch.uint8)


def e8m0_value(codes: Tensor) -> Tensor:
    """What the bytes mean, float32: `2 ** (byte - 127)`, and NaN for 255."""
    return codes.view(torch.float8_e8m0fnu).to(torch.float32)
