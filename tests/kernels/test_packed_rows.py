"""Packed latent rows against a plain-Python model, byte for byte."""

from __future__ import annotations

import math
import struct

import pytest
import torch
from torch import Tensor

from kvproto.kernels import (
    gather_rows,
    pack_latent_rows,
    packed_latent_width,
    store_rows,
    unpack_latent_rows,
)
from tests.kernels.latent_oracle import e4m3fn_byte, e4m3fn_value, f32, packed_row

RANK, ROPE = 512, 64


def parts(n: int, seed: int = 7, dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    spread = torch.logspace(-4, 4, RANK).roll(seed)
    latent = torch.randn(n, 1, RANK, generator=generator) * spread
    return latent.to(dtype), torch.randn(n, 1, ROPE, generator=generator).to(dtype)


def bytes_of(packed: Tensor) -> list[bytes]:
    return [row.numpy().tobytes() for row in packed.flatten(1)]


def expected(latent: Tensor, rope: Tensor) -> list[bytes]:
    rows = zip(latent.flatten(1).tolist(), rope.flatten(1).tolist(), strict=True)
    return [packed_row(a, b) for a, b in rows]


@pytest.mark.parametrize(("rank", "rope", "width"), [(512, 64, 656), (128, 64, 260), (256, 8, 280)])
def test_width_of_a_row(rank: int, rope: int, width: int) -> None:
    """512 + 4 scales of 4 + 64 of 2 is the row that a nominal 576 truncates (sglang#37534)."""
    assert packed_latent_width(rank, rope) == width
    packed = pack_latent_rows(torch.ones(2, 1, rank), torch.ones(2, 1, rope))
    assert packed.shape == (2, 1, width)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_bytes_are_those_of_the_model(dtype: torch.dtype) -> None:
    latent, rope = parts(12, dtype=dtype)
    assert bytes_of(pack_latent_rows(latent, rope)) == expected(latent.float(), rope.float())


def test_bytes_of_a_row_written_out() -> None:
    """Blocks of 448, 896, -1 and 0 at unit, doubled, small and no scale; rope of 1.0."""
    latent = torch.tensor([448.0, 896.0, -1.0, 0.0]).repeat_interleave(128).view(1, 1, RANK)
    (row,) = bytes_of(pack_latent_rows(latent, torch.ones(1, 1, ROPE)))
    assert row[:512] == b"\x7e" * 256 + b"\xfe" * 128 + b"\x00" * 128
    assert row[512:528] == struct.pack("<4f", 1.0, 2.0, 1 / 448, 0.0)
    assert row[528:] == b"\x80\x3f" * 64


def test_zeros_are_zero_bytes_and_tiny_blocks_hold_no_nan() -> None:
    """amax / amax has no meaning in a block of zeros; 1 / scale overflows below 2^-126."""
    latent = torch.zeros(3, 1, RANK)
    latent[1, 0, 5] = 2.0**-133
    latent[2, 0, ::2] = -(2.0**-149)
    packed = pack_latent_rows(latent, torch.zeros(3, 1, ROPE))
    assert not packed[0].any()
    assert bytes_of(packed) == expected(latent, torch.zeros(3, 1, ROPE))
    read, _ = unpack_latent_rows(packed, RANK, torch.float32)
    assert read.isfinite().all()
    assert (read[1].flatten().nonzero() == 5).all()


def test_infinity_saturates_and_nan_stays_alone() -> None:
    latent = torch.ones(1, 1, RANK)
    latent[0, 0, :2] = torch.tensor([math.inf, -math.inf])
    latent[0, 0, 130] = math.nan
    packed = pack_latent_rows(latent, torch.zeros(1, 1, ROPE))
    assert bytes_of(packed) == expected(latent, torch.zeros(1, 1, ROPE))
    read, _ = unpack_latent_rows(packed, RANK, torch.bfloat16)
    flat = read.flatten().tolist()
    largest = torch.finfo(torch.bfloat16).max
    assert (flat[0], flat[1]) == (largest, -largest)
    assert [i for i, x in enumerate(flat) if math.isnan(x)] == [130]
    assert flat[128:130] == [1.0, 1.0]


def test_reads_are_stored_times_scale() -> None:
    latent, rope = parts(4)
    packed = pack_latent_rows(latent, rope)
    read, read_rope = unpack_latent_rows(packed, RANK, torch.float32)
    for row, got in zip(bytes_of(packed), read.flatten(1).tolist(), strict=True):
        scales = struct.unpack("<4f", row[512:528])
        assert got == [f32(e4m3fn_value(row[i]) * scales[i // 128]) for i in range(RANK)]
    assert torch.equal(read_rope, rope.float())
    assert (read - latent.float()).abs().max() <= latent.float().abs().max() / 16


def test_reads_in_fp8_saturate() -> None:
    packed = pack_latent_rows(torch.full((1, 1, RANK), 1e4), torch.full((1, 1, ROPE), -1e4))
    latent, rope = unpack_latent_rows(packed, RANK, torch.float8_e4m3fn)
    assert set(latent.view(torch.uint8).flatten().tolist()) == {0x7E}
    assert set(rope.view(torch.uint8).flatten().tolist()) == {0xFE}


def test_strided_parts_and_empty_ones() -> None:
    latent, rope = parts(6)
    joined = torch.cat([latent, rope], dim=-1)
    strided = pack_latent_rows(joined[::2, :, :RANK], joined[::2, :, RANK:])
    assert torch.equal(strided, pack_latent_rows(latent[::2].clone(), rope[::2].clone()))
    none = pack_latent_rows(latent[:0], rope[:0])
    assert none.shape == (0, 1, 656)
    assert [x.shape for x in unpack_latent_rows(none, RANK, torch.bfloat16)] == [
        (0, 1, RANK),
        (0, 1, ROPE),
    ]


@pytest.mark.parametrize("rank", [128, 512])
def test_no_row_is_no_bytes_of_the_right_width(rank: int) -> None:
    packed = pack_latent_rows(torch.zeros(0, 1, rank), torch.zeros(0, 1, 8))
    assert packed.shape == (0, 1, packed_latent_width(rank, 8))


def test_stored_rows_are_found_again_and_slot_zero_gives_zeros() -> None:
    latent, rope = parts(2)
    target = torch.zeros(5, 1, 656, dtype=torch.uint8)
    store_rows(target, torch.tensor([3, 0]), pack_latent_rows(latent, rope))
    rows = gather_rows(target, torch.tensor([3, 0, -4], dtype=torch.int32))
    assert torch.equal(rows[0], pack_latent_rows(latent, rope)[0])
    for part in unpack_latent_rows(rows, RANK, torch.bfloat16):
        assert not part[1:].any()


def test_the_model_rounds_as_the_format_does() -> None:
    """The model itself, at the halfway points and at the end of the range."""
    assert [e4m3fn_byte(x) for x in (1.0, 1.0625, 1.0626, -2.0)] == [0x38, 0x38, 0x39, 0xC0]
    assert [e4m3fn_byte(x) for x in (448, 1e9, -1e9, 2.0**-10, 0.0)] == [0x7E, 0x7E, 0xFE, 0, 0]
    every = torch.arange(256).to(torch.uint8)
    for byte, value in zip(
        every.tolist(), every.view(torch.float8_e4m3fn).float().tolist(), strict=True
    ):
        assert math.isnan(value) or e4m3fn_byte(value) == byte
