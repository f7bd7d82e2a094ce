"""The fp8 formats in kernels: by the target's own instructions, or by integer arithmetic.

Both give, for every float32, the byte that torch's casts give after saturation: to the nearest,
ties to even, NaN kept with its sign.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

__all__ = ["FORMATS", "Fp8Format", "fp8_bytes", "fp8_values", "has_native_fp8"]


class Fp8Format(NamedTuple):
    """Its exponent's bias and its bits of mantissa; if `UNSIGNED`, -0 is the code of NaN."""

    DTYPE: Any
    MANTISSA: int
    BIAS: int
    LIMIT: float
    UNSIGNED: bool


FORMATS = {
    torch.float8_e4m3fn: Fp8Format(tl.float8e4nv, 3, 7, 448.0, False),
    torch.float8_e4m3fnuz: Fp8Format(tl.float8e4b8, 3, 8, 240.0, True),
    torch.float8_e5m2: Fp8Format(tl.float8e5, 2, 15, 57344.0, False),
    torch.float8_e5m2fnuz: Fp8Format(tl.float8e5b16, 2, 16, 57344.0, True),
}

_NATIVE = {
    torch.float8_e4m3fn: ("sm_89", "sm_9", "sm_1", "gfx950", "gfx12"),
    torch.float8_e4m3fnuz: ("gfx942",),
    torch.float8_e5m2: ("sm_89", "sm_9", "sm_1", "gfx950", "gfx12"),
    torch.float8_e5m2fnuz: ("gfx942",),
}


def has_native_fp8(dtype: torch.dtype, architecture: str) -> bool:
    """Whether a target converts to the format by itself, in one instruction for two numbers."""
    return architecture.startswith(_NATIVE[dtype])


@triton.jit
def fp8_bytes(values, FORMAT: tl.constexpr, NATIVE: tl.constexpr):
    """uint8 of float32 of any shape: saturated, infinities too."""
    bits = values.to(tl.int32, bitcast=True)
    sign = (bits >> 24) & 0x80
    held = tl.minimum(tl.maximum(values, -FORMAT.LIMIT), FORMAT.LIMIT)
    if NATIVE:
        code = held.to(FORMAT.DTYPE).to(tl.uint8, bitcast=True).to(tl.int32)
    else:
        code = _rounded(tl.abs(held), FORMAT)
        code = tl.where(code == 0, 0, code | sign) if FORMAT.UNSIGNED else code | sign
    nan = 0x80 if FORMAT.UNSIGNED else sign | 0x7F
    is_nan = (bits & 0x7FFFFFFF) > 0x7F800000
    return tl.where(is_nan, nan, code).to(tl.uint8)


@triton.jit
def _rounded(size, FORMAT: tl.constexpr):
    """The code, int32, of magnitudes that the format reaches."""
    DROPPED: tl.constexpr = 23 - FORMAT.MANTISSA
    bits = size.to(tl.int32, bitcast=True)
    even = bits + ((1 << (DROPPED - 1)) - 1) + ((bits >> DROPPED) & 1)
    normal = (even >> DROPPED) - ((127 - FORMAT.BIAS) << FORMAT.MANTISSA)
    # Of a number below the smallest normal one: added to what makes its last bit the format's.
    ALIGNED: tl.constexpr = (127 + 1 - FORMAT.BIAS + DROPPED) << 23
    aligned = tl.full(size.shape, ALIGNED, tl.int32).to(tl.float32, bitcast=True)
    small = (size + aligned).to(tl.int32, bitcast=True) - ALIGNED
    return tl.where(bits < ((128 - FORMAT.BIAS) << 23), small, normal)


@triton.jit
def fp8_values(codes, FORMAT: tl.constexpr):
    """float32 of uint8 of any shape; exact."""
    wide = codes.to(tl.int32)
    size = ((wide & 0x7F) << (23 - FORMAT.MANTISSA)).to(tl.float32, bitcast=True)
    # The exponent is that of another bias: multiplied up, which makes subnormals right too.
    value = size * 2.0 ** (127 - FORMAT.BIAS)
    if FORMAT.UNSIGNED:
        nan = wide == 0x80
    elif FORMAT.MANTISSA == 3:
        nan = (wide & 0x7F) == 0x7F
    else:
        nan = (wide & 0x7F) > 0x7C
        value = tl.where((wide & 0x7F) == 0x7C, float("inf"), value)
    value = tl.where((wide & 0x80) != 0, -value, value)
    return tl.where(nan, float("nan"), value)
