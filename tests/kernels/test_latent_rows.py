"""Latent rows written and read as two parts."""

from __future__ import annotations

import pytest
import torch

from kvproto.kernels import FP8_DTYPES, load_latent_rows, store_latent_rows, to_fp8

pytestmark = pytest.mark.usefixtures("host_or_device")


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_parts_share_a_row_and_nothing_else_changes(index: torch.dtype) -> None:
    target = torch.zeros(9, 1, 6, dtype=torch.bfloat16)
    rows = torch.arange(1, 25, dtype=torch.float32).view(4, 1, 6)
    loc = torch.tensor([3, 0, -1, 8], dtype=index)
    store_latent_rows(target, loc, rows[..., :4], rows[..., 4:], torch.bfloat16)
    expected = torch.zeros(9, 1, 6)
    expected[3], expected[8] = rows[0], rows[3]
    assert torch.equal(target.float(), expected)


def test_undefined_rows_for_slot_zero_leave_it_finite() -> None:
    target = torch.zeros(4, 1, 3)
    undefined = torch.full((2, 1, 2), float("nan"))
    store_latent_rows(target, torch.tensor([0, 0]), undefined, undefined[..., :1], torch.float32)
    assert torch.equal(target, torch.zeros(4, 1, 3))


@pytest.mark.parametrize("dtype", FP8_DTYPES)
def test_fp8_parts_saturate_in_their_variant(dtype: torch.dtype) -> None:
    target = torch.zeros(3, 1, 6, dtype=torch.uint8)
    latent = torch.tensor([1.0, 1e9, float("-inf"), 0.3]).view(1, 1, 4)
    rope = torch.tensor([-0.7, 1e9]).view(1, 1, 2)
    store_latent_rows(target, torch.tensor([1]), latent, rope, dtype)
    assert torch.equal(target[1, 0].view(dtype).float()[3:], _rounded([0.3, -0.7, 1e9], dtype))
    a, b = load_latent_rows(target.view(dtype), torch.tensor([1]), 4, torch.float32)
    limit = torch.finfo(dtype).max
    assert a.flatten().tolist()[:3] == [1.0, limit, -limit]
    assert b.flatten().tolist()[1] == limit


def test_reads_are_fresh_dense_and_zero_at_slot_zero() -> None:
    source = torch.arange(18, dtype=torch.bfloat16).view(3, 1, 6)
    source[0] = 0
    loc = torch.tensor([2, 0, -1, 1])
    latent, rope = load_latent_rows(source, loc, 4, torch.float32)
    assert latent[:, 0].tolist() == [[12, 13, 14, 15], [0] * 4, [0] * 4, [6, 7, 8, 9]]
    assert rope[:, 0].tolist() == [[16, 17], [0, 0], [0, 0], [10, 11]]
    assert latent.is_contiguous()
    assert rope.is_contiguous()
    same, _ = load_latent_rows(source, loc, 4, torch.bfloat16)
    same.fill_(9)
    assert source[2, 0, 0] == 12


def test_reads_into_fp8_follow_the_pools_policy_and_not_the_cast() -> None:
    source = torch.tensor([0.0, 1000.0]).view(2, 1, 1).expand(2, 1, 2).contiguous()
    latent, _ = load_latent_rows(source, torch.tensor([1]), 1, torch.float8_e4m3fnuz)
    assert latent.view(torch.uint8).item() == 0x7F


def _rounded(values: list[float], dtype: torch.dtype) -> torch.Tensor:
    return to_fp8(torch.tensor(values), dtype).float()
