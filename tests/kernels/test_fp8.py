"""fp8 rounding against the formats' definitions, value by value."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from kvproto.kernels import FP8_DTYPES, to_fp8, to_stored

# exponent bits, mantissa bits, bias, byte patterns of NaN, whether infinities exist
FORMATS = {
    torch.float8_e4m3fn: (4, 3, 7, {0x7F, 0xFF}, False),
    torch.float8_e4m3fnuz: (4, 3, 8, {0x80}, False),
    torch.float8_e5m2: (5, 2, 15, {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}, True),
    torch.float8_e5m2fnuz: (5, 2, 16, {0x80}, False),
}


def decode(byte: int, dtype: torch.dtype) -> float:
    """What the format's definition says a byte means."""
    exponent_bits, mantissa_bits, bias, nans, has_infinity = FORMATS[dtype]
    if byte in nans:
        return math.nan
    sign = -1.0 if byte & 0x80 else 1.0
    exponent = (byte >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = byte & ((1 << mantissa_bits) - 1)
    if has_infinity and exponent == (1 << exponent_bits) - 1:
        return sign * math.inf
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)


def nearest(value: float, dtype: torch.dtype) -> int:
    """The byte of the nearest finite number, ties to the even mantissa."""
    finite = {b: decode(b, dtype) for b in range(256) if math.isfinite(decode(b, dtype))}
    negative = math.copysign(1, value) < 0
    signed = {b: v for b, v in finite.items() if v == 0 or (v < 0) is negative}
    return min(signed, key=lambda b: (abs(signed[b] - value), b & 1, (b >= 0x80) is not negative))


@pytest.mark.parametrize("dtype", FP8_DTYPES)
def test_every_byte_decodes_as_defined(dtype: torch.dtype) -> None:
    stored = torch.arange(256, dtype=torch.int64).to(torch.uint8).view(dtype).float()
    for byte in range(256):
        expected = decode(byte, dtype)
        got = float(stored[byte])
        assert got == expected or (math.isnan(got) and math.isnan(expected)), hex(byte)


@pytest.mark.parametrize("dtype", FP8_DTYPES)
def test_rounds_to_the_nearest_number(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(3000, generator=generator) * torch.logspace(-6, 4.5, 3000)
    stored = to_fp8(values, dtype).view(torch.uint8).tolist()
    for value, byte in zip(values.tolist(), stored, strict=True):
        expected = nearest(value, dtype)
        assert decode(byte, dtype) == decode(expected, dtype), (value, hex(byte), hex(expected))


@pytest.mark.parametrize("dtype", FP8_DTYPES)
def test_halfway_goes_to_the_even_mantissa(dtype: torch.dtype) -> None:
    numbers = sorted({decode(b, dtype) for b in range(128) if math.isfinite(decode(b, dtype))})
    halfway = [(a + b) / 2 for a, b in itertools.pairwise(numbers)]
    stored = to_fp8(torch.tensor(halfway), dtype).view(torch.uint8).tolist()
    assert all(byte & 1 == 0 for byte in stored)


@pytest.mark.parametrize(
    ("dtype", "largest"),
    [
        (torch.float8_e4m3fn, 448.0),
        (torch.float8_e4m3fnuz, 240.0),
        (torch.float8_e5m2, 57344.0),
        (torch.float8_e5m2fnuz, 57344.0),
    ],
)
def test_saturates_and_keeps_nan(dtype: torch.dtype, largest: float) -> None:
    given = torch.tensor([largest, largest * 1.01, 1e30, math.inf, -math.inf, math.nan])
    stored = to_fp8(given, dtype).float().tolist()
    assert stored[:5] == [largest, largest, largest, largest, -largest]
    assert math.isnan(stored[5])


def test_scales_divide_and_leave_the_input_alone() -> None:
    given = torch.full((2,), 3.0, dtype=torch.bfloat16)
    for scale in (0.5, torch.tensor(0.5), torch.tensor([0.5])):
        assert to_fp8(given, torch.float8_e4m3fn, scale).view(torch.uint8).tolist() == [0x4C] * 2
    assert given.tolist() == [3.0, 3.0]
    assert to_fp8(torch.tensor([300.0]), torch.float8_e4m3fn, 0.5).view(torch.uint8).item() == 0x7E


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_no_scale_is_refused(scale: float) -> None:
    for form in (scale, torch.tensor(scale), torch.tensor([scale])):
        with pytest.raises(ValueError, match="must be a positive finite number"):
            to_fp8(torch.ones(1), torch.float8_e4m3fn, form)


def test_a_scale_per_row_is_refused() -> None:
    with pytest.raises(ValueError, match=r"scale has shape \(2,\), must hold one element"):
        to_fp8(torch.ones(2), torch.float8_e4m3fn, torch.ones(2))


@pytest.mark.parametrize("source", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtype", FP8_DTYPES)
@pytest.mark.parametrize("n", [1 << 16, (1 << 16) + 3, 5])
def test_every_16_bit_number_is_stored_by_the_same_policy(
    source: torch.dtype, dtype: torch.dtype, n: int
) -> None:
    """On the CPU they are looked up, in parts where there are many; strided or not."""
    patterns = torch.arange(n, dtype=torch.int32).to(torch.uint16).view(source)
    expected = to_fp8(patterns, dtype).view(torch.uint8)
    assert torch.equal(to_stored(patterns, dtype), expected)
    apart = torch.stack((patterns, patterns), dim=1)[:, 0]
    assert torch.equal(to_stored(apart, dtype), expected)
