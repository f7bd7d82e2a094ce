"""Block-scaled rows against the formats' definitions and against torch's own test oracles."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
import torch

from kvproto.kernels import (
    FP4Scales,
    dequantise_fp4,
    dequantise_mxfp8,
    gather_interleaved_scales,
    mxfp8_elements,
    quantise_fp4,
    quantise_mxfp8,
    store_interleaved_scales,
)
from kvproto.kernels.e2m1 import pack_e2m1, unpack_e2m1
from kvproto.kernels.e8m0 import e8m0_at_least, e8m0_value
from tests.kernels.torch_formats import torch_formats

torch_oracle = torch_formats()

ONE = torch.ones(())
BYTES = torch.arange(256).to(torch.uint8)


def e2m1(code: int) -> float:
    """The definition: one sign, two exponent and one mantissa bit, a bias of 1, no NaN."""
    exponent, mantissa = code >> 1 & 3, code & 1
    size = mantissa / 2 if exponent == 0 else (1 + mantissa / 2) * 2.0 ** (exponent - 1)
    return math.copysign(size, -1 if code & 8 else 1)


def nearest_e2m1(value: float) -> int:
    """The nearest code, ties to the even mantissa, beyond the largest saturated."""
    sign = 8 if math.copysign(1, value) < 0 else 0
    size = Fraction(min(abs(value), 6.0))
    return sign | min(range(8), key=lambda c: (abs(Fraction(e2m1(c)) - size), c & 1))


def test_every_scale_byte_means_its_power_of_two() -> None:
    values = e8m0_value(BYTES)
    expected = [2.0 ** (byte - 127) for byte in range(255)]
    assert values[:255].double().tolist() == expected
    assert values[255].isnan()


def test_scale_bytes_are_rounded_up() -> None:
    for byte in (0, 1, 2, 100, 127, 128, 253, 254):
        exact = torch.tensor(2.0, dtype=torch.float64) ** (byte - 127)
        power = exact.float()
        below = torch.nextafter(power, torch.zeros(()))
        above = torch.nextafter(power, torch.tensor(math.inf))
        assert e8m0_at_least(power) == byte
        assert e8m0_at_least(below) == byte
        assert e8m0_at_least(above) == min(byte + 1, 254)
    assert e8m0_at_least(torch.tensor([math.inf, math.nan])).tolist() == [254, 255]


def test_scale_bytes_are_those_of_torch_where_the_ratio_is_a_power_of_two() -> None:
    powers = e8m0_value(BYTES[1:255])
    assert torch.equal(e8m0_at_least(powers), powers.to(torch.float8_e8m0fnu).view(torch.uint8))


def test_every_pair_of_nibbles_is_read_low_nibble_first() -> None:
    pairs = unpack_e2m1(BYTES.unsqueeze(-1))
    for byte in range(256):
        expected = [e2m1(byte & 15), e2m1(byte >> 4)]
        assert pairs[byte].tolist() == expected
        signs = [math.copysign(1, x) for x in expected]
        assert pairs[byte].signbit().tolist() == [s < 0 for s in signs]


def test_every_pair_of_nibbles_survives_a_round_trip() -> None:
    assert torch.equal(pack_e2m1(unpack_e2m1(BYTES.unsqueeze(-1))).flatten(), BYTES)


def test_four_bits_are_rounded_to_the_nearest_even() -> None:
    grid = [step / 16 for step in range(-112, 113)] + [-0.0, 1e-30, 7e20, math.inf, -math.inf]
    packed = pack_e2m1(torch.tensor([[x, -x] for x in grid])).flatten().tolist()
    for value, byte in zip(grid, packed, strict=True):
        assert byte == nearest_e2m1(value) | nearest_e2m1(-value) << 4, value


def test_four_bits_are_those_of_torch() -> None:
    made = torch.Generator().manual_seed(3)
    values = torch.randn(4096, generator=made) * 3
    theirs = torch_oracle._f32_to_floatx_unpacked(values, 2, 1)
    assert torch.equal(pack_e2m1(values), torch_oracle.pack_uint4(theirs))


def test_a_number_that_is_none_has_no_bits() -> None:
    assert pack_e2m1(torch.tensor([math.nan, -math.nan])).tolist() == [0]


def rows(n: int, width: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Rows over forty binary orders of magnitude."""
    made = torch.Generator().manual_seed(seed)
    spread = torch.randint(-20, 21, (n, width), generator=made)
    return (torch.randn(n, width, generator=made) * 2.0**spread).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mxfp8_is_what_torch_makes(dtype: torch.dtype) -> None:
    given = rows(64, 256, dtype=dtype)
    scales, elements = torch_oracle.to_mxfp(given, 32, "mxfp8")
    got_elements, got_scales = quantise_mxfp8(given)
    assert torch.equal(got_scales, scales.view(torch.uint8))
    assert torch.equal(got_elements, elements.view(torch.uint8))


def test_fp4_mx16_is_what_torch_makes() -> None:
    """Numbers that bfloat16 holds: the oracle rounds to it before it rounds to four bits."""
    given = rows(64, 256, dtype=torch.bfloat16)
    scales, elements = torch_oracle.to_mxfp(given, 16, "mxfp4")
    got_elements, got_scales = quantise_fp4(given, "fp4_mx16", ONE)
    assert torch.equal(got_scales, scales.view(torch.uint8))
    assert torch.equal(got_elements, elements.view(torch.uint8))


def test_nvfp4_scales_are_the_largest_over_six_in_e4m3() -> None:
    given, tensor_scale = rows(16, 64).clamp(-2000, 2000), torch.tensor(0.75)
    elements, scales = quantise_fp4(given, "nvfp4", tensor_scale)
    exact = given.double().abs().view(16, 4, 16).amax(-1) / 0.75 / 6
    as_e4m3 = exact.clamp(max=448).float().to(torch.float8_e4m3fn)
    assert torch.equal(scales, as_e4m3.view(torch.uint8))
    divisor = (as_e4m3.double() * 0.75).repeat_interleave(16, -1)
    for value, by, code in zip(
        given.double().flatten().tolist(),
        divisor.flatten().tolist(),
        torch.stack([elements & 15, elements >> 4], -1).flatten().tolist(),
        strict=True,
    ):
        assert code == nearest_e2m1(value / by if by else math.copysign(0.0, value))


@pytest.mark.parametrize("style", ["fp4_mx16", "nvfp4"])
def test_a_number_in_reach_is_read_back_to_half_a_step(style: FP4Scales) -> None:
    given = torch.tensor([[6.0, -3.0, 1.25, 0.26] * 4])
    elements, scales = quantise_fp4(given, style, ONE)
    read = dequantise_fp4(elements, scales, style, ONE, torch.float32)
    assert read.tolist() == [[6.0, -3.0, 1.0, 0.5] * 4]


@pytest.mark.parametrize("style", ["fp4_mx16", "nvfp4"])
def test_four_bits_saturate_infinity_and_tell_nan_by_the_scale(style: FP4Scales) -> None:
    given = torch.ones(3, 32)
    given[1, 3], given[2, 3] = math.inf, math.nan
    elements, scales = quantise_fp4(given, style, ONE)
    read = dequantise_fp4(elements, scales, style, ONE, torch.float32)
    assert read[0].isfinite().all()
    assert elements[1, 1] >> 4 == 7
    assert scales[1, 0] == (254 if style == "fp4_mx16" else 0x7E)
    assert not read[1].isnan().any()
    assert read[2, :16].isnan().all()
    assert read[2, 16:].isfinite().all()


def test_a_tensor_scale_is_divided_by_and_multiplied_with() -> None:
    given = torch.tensor([[12.0, -6.0] * 8])
    by_two = quantise_fp4(given, "nvfp4", torch.tensor(2.0))
    by_one = quantise_fp4(given / 2, "nvfp4", ONE)
    assert all(map(torch.equal, by_two, by_one))
    read = dequantise_fp4(*by_two, "nvfp4", torch.tensor(2.0), torch.float32)
    assert torch.equal(read, given)


@pytest.mark.parametrize("style", ["fp4_mx16", "nvfp4"])
def test_zeros_are_read_as_zeros(style: FP4Scales) -> None:
    elements, scales = quantise_fp4(torch.zeros(2, 32), style, ONE)
    assert not elements.any()
    assert not dequantise_fp4(elements, scales, style, ONE, torch.float32).any()
    assert set(scales.flatten().tolist()) == {127 - 33 if style == "fp4_mx16" else 0}


def test_mxfp8_of_zeros_infinity_and_nan() -> None:
    given = torch.zeros(3, 32)
    given[1, 0], given[2, 0], given[2, 1] = math.inf, math.nan, 3.0
    elements, scales = quantise_mxfp8(given)
    assert scales.flatten().tolist() == [127 - 108, 254, 127 - 7]
    assert elements[1, 0] == 0x7E
    assert elements[2, :2].tolist() == [0x7F, 0x7C]
    read = dequantise_mxfp8(elements, scales, torch.float32)
    assert not read[0].any()
    assert read[2, 1] == 3.0


def test_mxfp8_under_given_scales_saturates() -> None:
    given = torch.tensor([[1000.0, -1000.0, 448.0, math.nan] * 8])
    elements = mxfp8_elements(given, torch.tensor([[127]], dtype=torch.uint8))
    assert elements[0, :4].tolist() == [0x7E, 0xFE, 0x7E, 0x7F]
    assert (
        dequantise_mxfp8(elements, torch.tensor([[255]]).to(torch.uint8), torch.float32)
        .isnan()
        .all()
    )


def test_interleaved_scales_lie_as_in_torchs_128_by_4_blocks() -> None:
    """A page of 128 tokens with four scales each is one block of the layout that GEMMs read."""
    scales = torch.randint(0, 255, (256, 1, 4), generator=torch.Generator().manual_seed(1))
    scales = scales.to(torch.uint8)
    scales[0] = 0
    target = torch.zeros(2, 1, 32, 4, 4, dtype=torch.uint8)
    store_interleaved_scales(target, torch.arange(256), scales)
    assert torch.equal(target.flatten(), torch_oracle.to_blocked(scales.squeeze(1)))


@pytest.mark.parametrize(("page", "heads", "blocks"), [(32, 1, 1), (64, 3, 2), (128, 2, 4)])
def test_interleaved_scales_are_found_where_they_were_put(
    page: int, heads: int, blocks: int
) -> None:
    pages, made = 3, torch.Generator().manual_seed(page)
    target = torch.zeros(pages, heads, 32, page // 32, blocks, dtype=torch.uint8)
    given = torch.randint(1, 255, (pages * page, heads, blocks), generator=made).to(torch.uint8)
    order = torch.randperm(pages * page, generator=made)
    store_interleaved_scales(target, order.to(torch.int32), given)
    kept = torch.where((order > 0).view(-1, 1, 1), given, torch.zeros_like(given))
    assert torch.equal(gather_interleaved_scales(target, order), kept)
    for i, head, block in itertools.product(range(0, pages * page, 7), range(heads), range(blocks)):
        token = int(order[i]) % page
        at = target[int(order[i]) // page, head, token % 32, token // 32, block]
        assert at == kept[i, head, block]


def test_interleaved_scales_are_not_written_to_the_reserved_slot() -> None:
    target = torch.zeros(2, 2, 32, 1, 2, dtype=torch.uint8)
    store_interleaved_scales(
        target, torch.tensor([0, -1, -33]), torch.full((3, 2, 2), 7).to(torch.uint8)
    )
    assert not target.any()
    store_interleaved_scales(
        target, torch.empty(0, dtype=torch.int64), torch.empty(0, 2, 2).to(torch.uint8)
    )
    assert not target.any()
