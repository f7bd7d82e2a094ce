"""Packed latent rows and index pages in plain Python: what the bytes must be, one by one.

Python floats are float64; `f32` rounds once to float32. Products and quotients of two float32
numbers taken in float64 and rounded by it are those of float32 arithmetic.
"""

from __future__ import annotations

import bisect
import math
import struct
from collections.abc import Mapping, Sequence

__all__ = ["bf16_bytes", "e4m3fn_byte", "e4m3fn_value", "f32", "index_page", "packed_row"]

BLOCK = 128
LARGEST_BF16 = 255 * 2.0**120
LARGEST_FLOAT = (2 - 2.0**-23) * 2.0**127


def f32(value: float) -> float:
    """The nearest float32; beyond its range infinity."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def e4m3fn_value(byte: int) -> float:
    """What a byte means, NaN for 0x7F and 0xFF."""
    sign, exponent, mantissa = byte >> 7, byte >> 3 & 15, byte & 7
    if exponent == 15 and mantissa == 7:
        return math.nan
    size = (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0**-9
    return -size if sign else size


POSITIVE = [e4m3fn_value(byte) for byte in range(0x7F)]


def e4m3fn_byte(value: float) -> int:
    """The nearest finite number, ties to the even byte, saturated; NaN is 0x7F."""
    if math.isnan(value):
        return 0x7F
    size = min(abs(value), 448.0)
    above = min(bisect.bisect_left(POSITIVE, size), 0x7E)
    below = max(above - 1, 0)
    to_above, to_below = POSITIVE[above] - size, size - POSITIVE[below]
    near = below if (to_below, below & 1) < (to_above, above & 1) else above
    return near | (0x80 if math.copysign(1, value) < 0 else 0)


def bf16_bytes(value: float) -> bytes:
    """Two bytes, nearest even; the value is a finite float32."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def packed_row(latent: Sequence[float], rope: Sequence[float]) -> bytes:
    """e4m3fn latents, a float32 scale per 128 of them, bf16 rope."""
    elements, scales = bytearray(), bytearray()
    for start in range(0, len(latent), BLOCK):
        block = [x if math.isnan(x) else _bounded(x) for x in latent[start : start + BLOCK]]
        scale = f32(max((abs(x) for x in block if not math.isnan(x)), default=0.0) / 448.0)
        inverse = min(f32(1.0 / scale), LARGEST_FLOAT) if scale else LARGEST_FLOAT
        elements += bytes(e4m3fn_byte(f32(x * inverse)) for x in block)
        scales += struct.pack("<f", scale)
    return bytes(elements + scales) + b"".join(map(bf16_bytes, rope))


def _bounded(value: float) -> float:
    return max(-LARGEST_BF16, min(LARGEST_BF16, value))


def index_page(
    tokens: Mapping[int, tuple[bytes, float]], page_size: int = 64, width: int = 128
) -> bytes:
    """A page with these keys and scales at offsets of tokens, zeros elsewhere."""
    keys = b"".join(tokens[t][0] if t in tokens else bytes(width) for t in range(page_size))
    scales = (tokens[t][1] if t in tokens else 0.0 for t in range(page_size))
    return keys + struct.pack(f"<{page_size}f", *scales)
