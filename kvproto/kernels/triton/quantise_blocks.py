"""Blocks of elements that share a scale, in kernels; `FORMAT` is that of e4m3fn."""

from __future__ import annotations

import triton
import triton.language as tl

from .e2m1 import e2m1_codes
from .e8m0 import e8m0_at_least, e8m0_inverse, is_nan
from .fp8 import fp8_bytes, fp8_values

__all__ = ["fp4_blocks", "mxfp8_blocks"]


@triton.jit
def _over(values, divisor: tl.constexpr):
    """Rounded as IEEE says: what `/` gives on a GPU may be another number."""
    return tl.div_rn(values, tl.full(values.shape, divisor, tl.float32))


@triton.jit
def _largest(blocks):
    """The largest magnitude along the last axis; NaN has no say in it."""
    return tl.max(tl.where(is_nan(blocks), 0.0, tl.abs(blocks)), axis=2)


@triton.jit
def mxfp8_blocks(blocks, FORMAT: tl.constexpr, NATIVE: tl.constexpr):
    """e4m3fn bytes `[rows, n, 32]`, and UE8M0 codes, int32 `[rows, n]`, as `quantise_mxfp8`."""
    code = e8m0_at_least(_over(tl.maximum(_largest(blocks), 1e-30), 448.0))
    return fp8_bytes(blocks * e8m0_inverse(code)[:, :, None], FORMAT, NATIVE), code


@triton.jit
def fp4_blocks(blocks, STYLE: tl.constexpr, FORMAT: tl.constexpr, NATIVE: tl.constexpr):
    """E2M1 codes, int32 `[rows, n, 16]`, and scale bytes, int32 `[rows, n]`, as `quantise_fp4`."""
    ratio = _over(_largest(blocks), 6.0)
    has_nan = tl.max(is_nan(blocks).to(tl.int32), axis=2) > 0
    if STYLE == "fp4_mx16":
        code = tl.where(has_nan, 255, e8m0_at_least(tl.maximum(ratio, 1e-10)))
        exact = blocks * e8m0_inverse(code)[:, :, None]
        negative = exact.to(tl.int32, bitcast=True) < 0
    else:
        code = tl.where(has_nan, 0x7F, fp8_bytes(ratio, FORMAT, NATIVE).to(tl.int32))
        divisor = fp8_values(code, FORMAT)[:, :, None]
        exact = tl.div_rn(blocks, tl.where(divisor == 0, 1.0, divisor) + tl.zeros_like(blocks))
        # What a scale of zero leaves of a number is its sign; zero has none then.
        negative = tl.where(divisor == 0, blocks < 0, exact.to(tl.int32, bitcast=True) < 0)
        exact = tl.where(divisor == 0, 0.0, exact)
    numbers = tl.where(has_nan[:, :, None], 0, e2m1_codes(exact, negative))
    return numbers, code
