"""The weighed, rotated key of a group, against float64 and against the definition."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvproto.kernels import hadamard, pool_index_keys


@pytest.mark.parametrize("width", [1, 2, 8, 128])
def test_rotation_is_sylvesters_matrix(width: int) -> None:
    matrix = torch.ones(1, 1, dtype=torch.float64)
    for _ in range(width.bit_length() - 1):
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    rows = torch.randn(5, width, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        hadamard(rows).double(), rows.double() @ matrix / width**0.5, atol=1e-5, rtol=1e-5
    )
    torch.testing.assert_close(hadamard(hadamard(rows)), rows, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("width", [0, 3, 96])
def test_rotation_refuses_other_widths(width: int) -> None:
    with pytest.raises(ValueError, match="must be a power of two"):
        hadamard(torch.ones(2, width))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.sampled_from((2, 4)), st.sampled_from((0.0, 1e-6, 1.0, 1e4)))
def test_keys_are_what_float64_makes_of_them(seed: int, group: int, size: float) -> None:
    made = torch.Generator().manual_seed(seed)
    keys = (torch.randn(3, group, 16, generator=made) * size).to(torch.bfloat16)
    scores = torch.randn(3, group, 16, generator=made).to(torch.bfloat16)
    bias = torch.randn(group, 16, generator=made)
    raw, raw_scales = pool_index_keys(keys, scores, bias, round_scale=False)
    weights = (scores.double() + bias.double()).exp()
    mean = (keys.double() * weights).sum(1) / weights.sum(1)
    exact = hadamard(mean.float()).double()
    scales = raw_scales.view(torch.float32).double()
    peak = exact.abs().amax(1, keepdim=True)
    torch.testing.assert_close(scales, peak.clamp(min=1e-4) / 448, rtol=0.02, atol=0.0)
    got = raw.view(torch.float8_e4m3fn).double() * scales
    assert ((got - exact).abs() <= exact.abs() / 16 + peak / 64 + 1e-6).all()


def test_a_rounded_scale_is_the_next_power_of_two() -> None:
    keys = torch.full((1, 2, 4), 3.0)
    _, scales = pool_index_keys(keys, keys * 0, keys[0] * 0, round_scale=True)
    # All four elements are 3: rotated, the first is 6 and the others 0; 6 / 448 is below 2**-6.
    assert scales.view(torch.float32).item() == 2.0**-6
