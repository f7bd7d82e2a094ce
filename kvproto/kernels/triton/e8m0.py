"""UE8M0 in kernels: powers of two as bytes."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["e8m0_at_least", "e8m0_inverse", "is_nan"]


@triton.jit
def is_nan(values):
    """Of float32: by its bits, which no compiler takes for never so."""
    return (values.to(tl.int32, bitcast=True) & 0x7FFFFFFF) > 0x7F800000


@triton.jit
def e8m0_at_least(ratio):
    """The code, int32, of the smallest power of two that is not below a positive float32.

    As `kvproto.kernels.e8m0` does it: at most 254; NaN gives 255.
    """
    bits = ratio.to(tl.int32, bitcast=True)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    # Below 2 ** -126 the mantissa's top bit is the exponent: half of it is 2 ** -127, code 0.
    up = tl.where(exponent == 0, mantissa > 0x400000, mantissa > 0)
    code = tl.minimum(exponent + up.to(tl.int32), 254)
    return tl.where(is_nan(ratio), 255, code)


@triton.jit
def e8m0_inverse(code):
    """float32, one over what a code means: exact, and NaN for 255.

    A product with it is the quotient: both round the same exact number.
    """
    bits = tl.where(code == 254, 0x400000, (254 - code) << 23)
    return tl.where(code == 255, 0x7FC00000, bits).to(tl.float32, bitcast=True)
