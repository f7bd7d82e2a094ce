"""Packed latent rows by kernels: the bytes of `pack_latent_rows` for numbers of every kind."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kvproto.kernels import (
    load_latent_rows,
    load_packed_latent_rows,
    pack_latent_rows,
    packed_latent_width,
    store_packed_latent_rows,
    unpack_latent_rows,
)
from kvproto.kernels.triton.packed_latent import plan_store_packed_latent

pytestmark = pytest.mark.usefixtures("served_on_cpu")


def latents(rank: int) -> Tensor:
    """Rows with blocks of zeros, subnormals, infinities, NaN and plain numbers of all sizes."""
    rows = torch.randn(6, 1, rank, generator=torch.Generator().manual_seed(3))
    rows *= torch.logspace(-6, 6, 6).view(6, 1, 1)
    rows[0, 0, :128] = 0
    rows[1, 0, :128] = 1e-42
    rows[2, 0, 5], rows[2, 0, 6] = float("inf"), -float("inf")
    rows[3, 0, 7] = float("nan")
    rows[4, 0, :128] = float("nan")
    return rows


@pytest.mark.parametrize(("rank", "rope"), [(512, 64), (128, 32), (384, 64), (256, 48)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rows_of_every_kind(rank: int, rope: int, dtype: torch.dtype) -> None:
    latent = latents(rank).to(dtype)
    ropes = torch.randn(6, 1, rope, generator=torch.Generator().manual_seed(4)).to(dtype)
    target = torch.zeros(9, 1, packed_latent_width(rank, rope), dtype=torch.uint8)
    loc = torch.tensor([8, 2, 3, 4, 5, 0])
    store_packed_latent_rows(target, loc, latent, ropes)
    expected = torch.zeros_like(target)
    expected[loc[:5]] = pack_latent_rows(latent, ropes)[:5]
    assert torch.equal(target, expected)
    for read in (torch.bfloat16, torch.float32):
        want = torch.tensor([8, -1, 4, 0, 5])
        got = load_packed_latent_rows(target, want, rank, read)
        theirs = unpack_latent_rows(expected[want.clamp(min=0)], rank, read)
        for part, other in zip(got, theirs, strict=True):
            assert torch.equal(part.nan_to_num(7), other.nan_to_num(7))
            assert torch.equal(part.isnan(), other.isnan())


@pytest.mark.parametrize(("rope", "offset"), [(33, 0), (64, 2), (31, 1)])
def test_rows_that_are_not_whole_floats(rope: int, offset: int) -> None:
    """Scales would be read and written beside where they are."""
    latent, ropes = latents(128), torch.ones(6, 1, rope)
    width = packed_latent_width(128, rope)
    memory = torch.zeros(offset + 9 * width, dtype=torch.uint8)
    target = memory[offset:].view(9, 1, width)
    loc = torch.tensor([8, 2, 3, 4, 5, 0])
    store_packed_latent_rows(target, loc, latent, ropes)
    expected = torch.zeros(9, 1, width, dtype=torch.uint8)
    expected[loc[:5]] = pack_latent_rows(latent, ropes)[:5]
    assert torch.equal(target, expected)
    got = load_packed_latent_rows(target, loc, 128, torch.bfloat16)
    theirs = unpack_latent_rows(expected[loc], 128, torch.bfloat16)
    for part, other in zip(got, theirs, strict=True):
        assert torch.equal(part.nan_to_num(7), other.nan_to_num(7))
    with pytest.raises(ValueError, match="served are rows of whole float32; nothing was written"):
        plan_store_packed_latent(target, loc, latent, ropes)


def test_parts_of_another_width_than_the_buffers_are_refused() -> None:
    target = torch.zeros(4, 1, 656, dtype=torch.uint8)
    with pytest.raises(ValueError, match="have 656 bytes; parts of 512 and 32 make 592"):
        store_packed_latent_rows(
            target, torch.tensor([1]), torch.ones(1, 1, 512), torch.ones(1, 1, 32)
        )
    assert not target.any()


def test_parts_that_are_not_served_are_refused() -> None:
    target = torch.zeros(4, 1, 656, dtype=torch.uint8)
    latent, rope = torch.ones(1, 1, 512).double(), torch.ones(1, 1, 64).double()
    message = r"store_packed_latent_rows: parts are torch\.float64; served are torch\.bfloat16"
    with pytest.raises(TypeError, match=message):
        store_packed_latent_rows(target, torch.tensor([1]), latent, rope)
    with pytest.raises(ValueError, match="the buffer is not dense"):
        store_packed_latent_rows(
            target.new_zeros(4, 2, 656)[:, :1], torch.tensor([1]), latent.half(), rope.half()
        )
    assert not target.any()
    with pytest.raises(TypeError, match=r"load_latent_rows: parts are torch\.float64"):
        load_latent_rows(torch.zeros(4, 1, 6).double(), torch.tensor([1]), 4, torch.bfloat16)
