# pyright: basic
"""The fp8 formats in kernels, against torch's own casts, byte for byte and bit for bit."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kvproto.kernels import FP8_DTYPES, store_fp8_row_sets, to_fp8
from kvproto.kernels.triton.fp8 import FORMATS, fp8_bytes, fp8_values, has_native_fp8


@triton.jit
def encode(values, out, FORMAT: tl.constexpr, NATIVE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, fp8_bytes(tl.load(values + at), FORMAT, NATIVE))


@triton.jit
def decode(codes, out, FORMAT: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, fp8_values(tl.load(codes + at), FORMAT))


def every_bf16() -> torch.Tensor:
    """All 65536, infinities and NaN of both signs among them, as float32."""
    return torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16).float()


def near_ties(dtype: torch.dtype) -> torch.Tensor:
    """Every number of the format, every middle between two, and the float32 on both sides."""
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype).double()
    finite = codes[codes.isfinite()].unique()
    middles = (finite[1:] + finite[:-1]) / 2
    exact = torch.cat([finite, middles]).float()
    up, down = (torch.nextafter(exact, torch.full_like(exact, end)) for end in (1e38, -1e38))
    return torch.cat([exact, -exact, up, down])


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("dtype", FP8_DTYPES)
def test_every_byte_is_torchs(dtype: torch.dtype, native: bool) -> None:
    noise = torch.randn(4096, generator=torch.Generator().manual_seed(1)) * 40
    values = torch.cat([every_bf16(), near_ties(dtype), noise])
    n = triton.next_power_of_2(values.numel())
    values = torch.cat([values, values.new_zeros(n - values.numel())])
    out = torch.empty(n, dtype=torch.uint8)
    encode[(1,)](values, out, FORMAT=FORMATS[dtype], NATIVE=native, N=n)
    expected = to_fp8(values, dtype).view(torch.uint8)
    wrong = (out != expected).nonzero().flatten()
    assert not len(wrong), (values[wrong[:5]], out[wrong[:5]], expected[wrong[:5]])


@pytest.mark.parametrize("dtype", FP8_DTYPES)
def test_rounding_is_to_the_nearest(dtype: torch.dtype) -> None:
    """Against float64 distances, without torch's cast."""
    values = near_ties(dtype)
    limit = torch.finfo(dtype).max
    values = values[values.abs() <= limit]
    n = triton.next_power_of_2(values.numel())
    padded = torch.cat([values, values.new_zeros(n - values.numel())])
    out = torch.empty(n, dtype=torch.uint8)
    encode[(1,)](padded, out, FORMAT=FORMATS[dtype], NATIVE=False, N=n)
    got = out[: values.numel()].view(dtype).double()
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype).double()
    numbers = codes[codes.isfinite()]
    least = (values.double().unsqueeze(1) - numbers).abs().amin(1)
    assert torch.equal((got - values.double()).abs(), least)


@pytest.mark.parametrize("dtype", FP8_DTYPES)
def test_every_byte_is_read_as_torch_reads_it(dtype: torch.dtype) -> None:
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    out = torch.empty(256)
    decode[(1,)](codes, out, FORMAT=FORMATS[dtype], N=256)
    expected = codes.view(dtype).float()
    assert torch.equal(out.isnan(), expected.isnan())
    kept = ~expected.isnan()
    assert torch.equal(out[kept].view(torch.int32), expected[kept].view(torch.int32))


def test_which_targets_convert_by_themselves() -> None:
    assert not has_native_fp8(torch.float8_e4m3fn, "sm_80")
    assert not has_native_fp8(torch.float8_e4m3fn, "gfx942")
    assert has_native_fp8(torch.float8_e4m3fn, "sm_100")
    assert has_native_fp8(torch.float8_e4m3fnuz, "gfx942")
    assert not has_native_fp8(torch.float8_e4m3fnuz, "sm_90")
    assert not has_native_fp8(torch.float8_e5m2, "")


@pytest.mark.usefixtures("served_on_cpu")
@pytest.mark.parametrize("rows_dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("scale", [None, 0.3, torch.tensor([0.3])])
def test_scales_divide_as_torch_divides(
    rows_dtype: torch.dtype, scale: float | torch.Tensor | None
) -> None:
    """To the last bit: a product with the inverse would round some to another byte."""
    rows = (torch.randn(5, 2, 64, generator=torch.Generator().manual_seed(2)) * 60).to(rows_dtype)
    target, dtype = torch.zeros(8, 2, 64, dtype=torch.uint8), torch.float8_e4m3fn
    loc = torch.tensor([1, 7, 0, -1, 3], dtype=torch.int32)
    store_fp8_row_sets(loc, [(target, rows, scale)], dtype)
    expected = torch.zeros_like(target)
    for place, row in zip(loc.tolist(), to_fp8(rows, dtype, scale).view(torch.uint8), strict=True):
        if place > 0:
            expected[place] = row
    assert torch.equal(target, expected)


@pytest.mark.usefixtures("served_on_cpu")
def test_rows_of_another_type_are_refused() -> None:
    target = torch.zeros(4, 8, dtype=torch.uint8)
    with pytest.raises(TypeError, match=r"store_fp8_row_sets: rows are torch\.float64; served are"):
        store_fp8_row_sets(
            torch.tensor([1]), [(target, torch.ones(1, 8).double(), None)], torch.float8_e5m2
        )
    with pytest.raises(ValueError, match=r"must be torch\.float32"):
        store_fp8_row_sets(
            torch.tensor([1]), [(target.float(), torch.ones(1, 8), None)], torch.float8_e5m2
        )
    assert not target.any()
