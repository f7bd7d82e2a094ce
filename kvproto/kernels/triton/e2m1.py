"""E2M1 in kernels: 4-bit floats, two in a byte."""

from __future__ import annotations

import triton
import triton.language as tl

__all__ = ["e2m1_codes", "packed"]


@triton.jit
def e2m1_codes(values, negative):
    """int32 codes of the magnitudes of float32 `values`, none NaN, with their signs.

    To the nearest, of two equally near to the even code, beyond 6 saturated: a magnitude is past as
    many of the middles between neighbours as its code says, and at a middle where that makes
    it even.
    """
    size = tl.abs(values)
    code = (size > 0.25).to(tl.int32) + (size >= 0.75).to(tl.int32) + (size > 1.25).to(tl.int32)
    code += (size >= 1.75).to(tl.int32) + (size > 2.5).to(tl.int32)
    code += (size >= 3.5).to(tl.int32) + (size > 5.0).to(tl.int32)
    return code | (negative.to(tl.int32) << 3)


@triton.jit
def packed(codes, ROWS: tl.constexpr, BYTES: tl.constexpr):
    """uint8 `[ROWS, BYTES]` of `2 * BYTES` codes a row: the even element is the low nibble."""
    low, high = tl.split(tl.reshape(codes, (ROWS, BYTES, 2)))
    return (low | (high << 4)).to(tl.uint8)
