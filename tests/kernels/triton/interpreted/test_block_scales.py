# pyright: basic
"""Block-scaled formats in kernels: every byte of the tables, every middle, and special numbers."""

from __future__ import annotations

import math

import pytest
import torch
import triton
import triton.language as tl

from kvproto.kernels import (
    BlockScheme,
    dequantise_fp4,
    dequantise_mxfp8,
    quantise_blocks,
    store_block_scaled_rows,
)
from kvproto.kernels.e2m1 import pack_e2m1, unpack_e2m1
from kvproto.kernels.e8m0 import e8m0_at_least as twin_at_least
from kvproto.kernels.e8m0 import e8m0_value
from kvproto.kernels.triton.e2m1 import e2m1_codes, packed
from kvproto.kernels.triton.e8m0 import e8m0_at_least, e8m0_inverse
from tests.kernels.torch_formats import torch_formats

torch_oracle = torch_formats()
served = pytest.mark.usefixtures("served_on_cpu")
SCHEMES: list[BlockScheme] = ["mxfp8", "fp4_mx16", "nvfp4"]
BYTES = torch.arange(256, dtype=torch.int32)
FLOATS = torch.cat(
    [
        torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16).float(),
        torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.float16).float(),
    ]
)
"""Every bf16 and every fp16: infinities, NaN of both signs and subnormals among them."""


@triton.jit
def inverse(codes, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, e8m0_inverse(tl.load(codes + at)))


@triton.jit
def at_least(ratios, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, e8m0_at_least(tl.load(ratios + at)).to(tl.uint8))


@triton.jit
def pack(values, out, N: tl.constexpr):
    at = tl.arange(0, N)
    read = tl.load(values + at)
    codes = e2m1_codes(read, read.to(tl.int32, bitcast=True) < 0)
    tl.store(out + tl.arange(0, N // 2), tl.reshape(packed(codes, 1, N // 2), (N // 2,)))


def test_every_power_of_two_has_its_inverse() -> None:
    out = torch.empty(256)
    inverse[(1,)](BYTES, out, N=256)
    assert out[:255].double().tolist() == [2.0 ** (127 - code) for code in range(255)]
    assert out[255].isnan()


def test_dividing_by_every_power_of_two_is_a_product_with_its_inverse() -> None:
    out = torch.empty(256)
    inverse[(1,)](BYTES, out, N=256)
    numbers = FLOATS[FLOATS.isfinite()][::7]
    for code in range(0, 255, 2):
        quotient = numbers / e8m0_value(BYTES[code].to(torch.uint8))
        assert torch.equal(numbers * out[code], quotient)


def test_scales_are_rounded_up_as_by_the_twin() -> None:
    powers = e8m0_value(BYTES[:255].to(torch.uint8))
    near = [torch.nextafter(powers, torch.full_like(powers, end)) for end in (0.0, math.inf)]
    ratios = torch.cat([powers, *near, FLOATS[FLOATS > 0], torch.tensor([math.inf, math.nan])])
    n = triton.next_power_of_2(len(ratios))
    ratios = torch.cat([ratios, torch.ones(n - len(ratios))])
    out = torch.empty(n, dtype=torch.uint8)
    at_least[(1,)](ratios, out, N=n)
    assert torch.equal(out, twin_at_least(ratios))
    finite = ratios.isfinite() & (ratios < 2.0**127)
    exact = torch.ceil(torch.log2(ratios[finite].double())) + 127
    assert torch.equal(out[finite].double(), exact.clamp(min=0))


def packed_of(values: torch.Tensor) -> torch.Tensor:
    n = triton.next_power_of_2(len(values))
    values = torch.cat([values, torch.zeros(n - len(values))])
    out = torch.empty(n // 2, dtype=torch.uint8)
    pack[(1,)](values, out, N=n)
    return out


def test_every_pair_of_nibbles_survives_a_round_trip() -> None:
    values = unpack_e2m1(BYTES.to(torch.uint8).unsqueeze(-1)).flatten()
    assert torch.equal(packed_of(values), BYTES.to(torch.uint8))


def test_four_bits_are_the_nearest() -> None:
    """The twin's and torch's own, of all numbers and of the middles and what is beside them."""
    numbers = unpack_e2m1(BYTES[:8].to(torch.uint8).unsqueeze(-1)).flatten()[::2]
    middles = (numbers[1:] + numbers[:-1]) / 2
    near = [torch.nextafter(middles, torch.full_like(middles, end)) for end in (-1e38, 1e38)]
    values = torch.cat([middles, -middles, *near, *(-each for each in near), FLOATS])
    values = values[~values.isnan()]
    values = torch.cat([values, values.new_zeros(len(values) % 2)])
    got = packed_of(values)[: len(values) // 2]
    assert torch.equal(got, pack_e2m1(values))
    theirs = torch_oracle.pack_uint4(torch_oracle._f32_to_floatx_unpacked(values, 2, 1))
    assert torch.equal(got, theirs)


def hard_rows(width: int, dtype: torch.dtype) -> torch.Tensor:
    """`[n, 2, width]` over forty orders of two, with zeros of both signs and special numbers."""
    made = torch.Generator().manual_seed(width)
    spread = torch.randint(-20, 21, (24, 2, width), generator=made)
    rows = torch.randn(24, 2, width, generator=made) * 2.0**spread
    rows[1], rows[2], rows[3, 0, ::2] = 0.0, -0.0, -0.0
    rows[4, 0, 5], rows[5, 1, 7], rows[6, 0, :16] = math.inf, -math.inf, math.inf
    rows[7, 0, 3], rows[8, 1, 16:32] = math.nan, math.nan
    rows[9, 0, 1], rows[9, 0, 2] = math.inf, math.nan
    rows[10], rows[11], rows[12] = 1e-38, 3e38, 1e-44
    rows[13, 0, :16] = torch.tensor([-1e-9, 1e-9] * 8)
    return rows.to(dtype)


@served
@pytest.mark.filterwarnings("ignore:.* encountered in:RuntimeWarning")  # numpy's, of infinities
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("width", [32, 96, 128])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_hard_rows_become_the_twins_bytes(
    scheme: BlockScheme, width: int, dtype: torch.dtype
) -> None:
    rows, scale = hard_rows(width, dtype), None if scheme == "mxfp8" else torch.tensor(0.37)
    elements, scales = quantise_blocks(rows, scheme, scale)
    n, loc = rows.shape[0], torch.arange(1, rows.shape[0] + 1)
    into, beside = (torch.zeros(n + 1, *part.shape[1:]).byte() for part in (elements, scales))
    store_block_scaled_rows(loc, [(into, beside, rows, scale)], scheme)
    for got, expected in zip((into, beside), (elements, scales), strict=True):
        assert torch.equal(got[1:], expected)
        assert not got[0].any()


@served
def test_rows_of_a_dtype_or_shape_that_is_not_served_are_refused() -> None:
    target, scales = torch.zeros(4, 1, 32).to(torch.uint8), torch.zeros(4, 1, 1).to(torch.uint8)
    one = torch.tensor([1])
    with pytest.raises(TypeError, match=r"rows are torch.float64; served are torch.bfloat16"):
        store_block_scaled_rows(
            one, [(target, scales, torch.ones(1, 1, 32).double(), None)], "mxfp8"
        )
    with pytest.raises(ValueError, match=r"rows are \(1, 1, 32\), must be \(1, 1, 64\)"):
        store_block_scaled_rows(one, [(target, scales, torch.ones(1, 1, 32), None)], "fp4_mx16")
    assert not target.any()
    assert not scales.any()


def set_of(scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, None]:
    return torch.zeros(6, 1, 128, dtype=torch.uint8), scales, torch.ones(1, 1, 128), None


@served
def test_scales_that_are_not_those_of_the_elements_are_refused() -> None:
    """A kernel would write past them."""
    one, memory = torch.tensor([5]), torch.zeros(6, 1, 8, dtype=torch.uint8)
    for scales in (memory[:3, :, :4], memory[..., :2], memory[..., :5], memory[:, :, :4].char()):
        with pytest.raises(ValueError, match=r"must be torch.uint8 \(6, 1, 4\) for all 6 slots"):
            store_block_scaled_rows(one, [set_of(scales)], "mxfp8")
    with pytest.raises(ValueError, match=r"strides \(8, 8, 2\); served by the kernel are dense"):
        store_block_scaled_rows(one, [set_of(memory[..., ::2])], "mxfp8")
    pages = torch.zeros(1, 1, 32, 4, 4, dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"served by the kernel are dense rows, or dense pages"):
        store_block_scaled_rows(one, [set_of(pages[:, :, :, ::2])], "mxfp8")
    with pytest.raises(ValueError, match="mxfp8 has no scale of the tensor"):
        store_block_scaled_rows(one, [(*set_of(memory[..., :4])[:3], torch.tensor(2.0))], "mxfp8")
    assert not memory.any()
    assert not pages.any()


def test_the_twin_refuses_the_same_scales() -> None:
    one, memory = torch.tensor([5]), torch.zeros(6, 1, 8, dtype=torch.uint8)
    for scales in (memory[:3, :, :4], memory[..., :2], memory[..., :5]):
        with pytest.raises(ValueError, match=r"must be torch.uint8 \(6, 1, 4\) for all 6 slots"):
            store_block_scaled_rows(one, [set_of(scales)], "mxfp8")
    with pytest.raises(ValueError, match="mxfp8 has no scale of the tensor"):
        store_block_scaled_rows(one, [(*set_of(memory[..., :4])[:3], torch.tensor(2.0))], "mxfp8")
    assert not memory.any()


def largest_error(rows: torch.Tensor, scheme: BlockScheme) -> torch.Tensor:
    """float64, how far off an element of each block may be: half of the block's largest step.

    The scale of `nvfp4` has three bits of mantissa itself, and may be too small for the largest.
    """
    largest, group = (448.0, 32) if scheme == "mxfp8" else (6.0, 16)
    blocks = rows.double().unflatten(-1, (-1, group))
    peak = blocks.abs().amax(-1, keepdim=True)
    if scheme == "nvfp4":
        error = peak / largest + peak / 16
    else:
        error = torch.exp2(torch.ceil(torch.log2(peak / largest))) * (16 if group == 32 else 1)
    return error.expand_as(blocks).flatten(-2)


@served
@pytest.mark.parametrize("scheme", SCHEMES)
def test_stored_rows_are_read_back_to_half_a_step(scheme: BlockScheme) -> None:
    """Against float64: no element is further off than half of the largest step of its block."""
    rows = torch.randn(8, 2, 64, generator=torch.Generator().manual_seed(2))
    group, per_byte = (32, 1) if scheme == "mxfp8" else (16, 2)
    target = torch.zeros(9, 2, 64 // per_byte, dtype=torch.uint8)
    scales = torch.zeros(9, 2, 64 // group, dtype=torch.uint8)
    store_block_scaled_rows(torch.arange(1, 9), [(target, scales, rows, None)], scheme)
    if scheme == "mxfp8":
        read = dequantise_mxfp8(target[1:], scales[1:], torch.float32)
    else:
        read = dequantise_fp4(target[1:], scales[1:], scheme, torch.ones(()), torch.float32)
    assert ((read.double() - rows.double()).abs() <= largest_error(rows, scheme)).all()
