# pyright: basic
"""What the interpreter does otherwise than compiled kernels, and the patch that mends it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from tests.interop.rounding import FP8

ROOT = Path(__file__).parents[4]


@triton.jit
def cast(values, out, DTYPE: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(values + at).to(DTYPE))


@triton.jit
def up(values, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(values + at).to(tl.float32))


def test_the_interpreter_itself_is_still_wrong() -> None:
    """When this fails, what mends it may go: `mended.py`, and of `tests/interop/rounding.py`."""
    probe = (
        "from tests.interop.rounding import wrong_casts;"
        "from tests.kernels.triton.interpreted.mended import wrong_reads;"
        "print(wrong_casts(), wrong_reads())"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    casts, reads = map(int, done.stdout.split())
    assert casts > 0
    assert reads == 2


@pytest.mark.parametrize("name", ["float8e4nv", "float8e4b8", "float8e5", "float8e5b16"])
def test_casts_to_fp8_are_torchs(name: str) -> None:
    """All finite bf16 within the format's range, which is what kernels cast."""
    kind = getattr(tl, name)
    dtype = FP8[kind]
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.uint16).view(torch.bfloat16)
    limit = torch.finfo(dtype).max
    values = every[every.isfinite()].float().clamp(-limit, limit)
    values = torch.cat([values, values.new_zeros((1 << 16) - values.numel())])
    out = torch.empty(1 << 16, dtype=dtype)
    cast[(1,)](values, out, DTYPE=kind, N=1 << 16)
    assert torch.equal(out.view(torch.uint8), values.to(dtype).view(torch.uint8))


@pytest.mark.parametrize("dtype", list(FP8.values()))
def test_every_byte_of_fp8_is_read_as_torch_reads_it(dtype: torch.dtype) -> None:
    values = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    out = torch.empty(256)
    up[(1,)](values, out, N=256)
    assert torch.equal(out.nan_to_num(12345), values.float().nan_to_num(12345))


def test_casts_to_bf16_round() -> None:
    values = torch.randn(4096, generator=torch.Generator().manual_seed(1))
    out = torch.empty(4096, dtype=torch.bfloat16)
    cast[(1,)](values, out, DTYPE=tl.bfloat16, N=4096)
    assert torch.equal(out, values.bfloat16())


@triton.jit
def masked(out, n, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, at, mask=n > 0)
    tl.store(out + N + at, tl.load(out + at, mask=n > 0, other=7))


def test_a_comparison_of_scalars_is_a_mask() -> None:
    out = torch.zeros(8, dtype=torch.int32)
    masked[(1,)](out, 3, N=4)
    assert out.tolist() == [0, 1, 2, 3] * 2
    masked[(1,)](out, 0, N=4)
    assert out.tolist() == [0, 1, 2, 3, 7, 7, 7, 7]
