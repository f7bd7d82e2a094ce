"""Write and read packed latent rows: fp8 latents, a scale per block of 128 of them, bf16 rope.

The same bytes are addressed as uint8, float32 and bfloat16: every part of a row is a multiple of 16
bytes from its start where rank and rope are of real models.
"""

from __future__ import annotations

from functools import partial
from math import gcd

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvproto.kernels.packed_latent import LATENT_BLOCK, packed_latent_width, scales_at

from .fp8 import FORMATS, fp8_bytes, fp8_values, has_native_fp8
from .launch import Launch, next_power_of_2, the_device

__all__ = [
    "FLOATS",
    "is_aligned",
    "load_packed_latent_kernel",
    "plan_load_packed_latent",
    "plan_store_packed_latent",
    "store_packed_latent_kernel",
]

FLOATS = (torch.bfloat16, torch.float16, torch.float32)
"""What parts are written from, and read in."""

_FORMAT = torch.float8_e4m3fn
_TOKENS = 4
_LARGEST_LATENT = torch.finfo(torch.bfloat16).max
_LARGEST_INVERSE = torch.finfo(torch.float32).max


@triton.jit(do_not_specialize=["n", "slots", "latent_pitch", "rope_pitch"])
def store_packed_latent_kernel(
    loc,
    n,
    slots,
    elements,
    scales,
    ropes,
    latent,
    latent_pitch,
    rope,
    rope_pitch,
    WIDTH: tl.constexpr,
    RANK: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    ROPE: tl.constexpr,
    ROPE_BLOCK: tl.constexpr,
    UNIT: tl.constexpr,
    LARGEST: tl.constexpr,
    LARGEST_INVERSE: tl.constexpr,
    TOKENS: tl.constexpr,
    FORMAT: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """Pitches are in units of `UNIT` elements; `WIDTH` is that of a row in bytes."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    block, column = tl.arange(0, BLOCKS), tl.arange(0, BLOCK)
    within = kept[:, None, None] & (block < RANK // BLOCK)[None, :, None]
    place = block[None, :, None] * BLOCK + column[None, None, :]
    source = latent + token[:, None, None] * latent_pitch * UNIT + place
    values = tl.load(source, mask=within & (column < BLOCK)[None, None, :], other=0)
    values = values.to(tl.float32)
    values = tl.where(values > LARGEST, LARGEST, values)
    values = tl.where(values < -LARGEST, -LARGEST, values)
    is_nan = (values.to(tl.int32, bitcast=True) & 0x7FFFFFFF) > 0x7F800000
    peak = tl.max(tl.where(is_nan, 0.0, tl.abs(values)), 2)
    scale = tl.div_rn(peak, tl.full(peak.shape, FORMAT.LIMIT, tl.float32))
    inverse = tl.div_rn(tl.full(peak.shape, 1.0, tl.float32), scale)
    inverse = tl.minimum(inverse, LARGEST_INVERSE)
    code = fp8_bytes(values * inverse[:, :, None], FORMAT, NATIVE)
    tl.store(elements + slot[:, None, None] * WIDTH + place, code, mask=within)
    into = slot[:, None] * (WIDTH // 4) + RANK // 4 + block[None, :]
    tl.store(scales + into, scale, mask=kept[:, None] & (block < RANK // BLOCK)[None, :])
    at = tl.arange(0, ROPE_BLOCK)
    mask = kept[:, None] & (at < ROPE)[None, :]
    given = tl.load(rope + token[:, None] * rope_pitch * UNIT + at[None, :], mask=mask)
    into = slot[:, None] * (WIDTH // 2) + RANK // 2 + 2 * (RANK // BLOCK) + at[None, :]
    tl.store(ropes + into, given.to(tl.bfloat16), mask=mask)


@triton.jit(do_not_specialize=["n", "slots"])
def load_packed_latent_kernel(
    loc,
    n,
    slots,
    elements,
    scales,
    ropes,
    latent,
    rope,
    WIDTH: tl.constexpr,
    RANK: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
    ROPE: tl.constexpr,
    ROPE_BLOCK: tl.constexpr,
    TOKENS: tl.constexpr,
    FORMAT: tl.constexpr,
):
    """What is not in `1 .. slots - 1` is zeros, and nothing is read for it."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    block, column = tl.arange(0, BLOCKS), tl.arange(0, BLOCK)
    is_block = (block < RANK // BLOCK)[None, :]
    place = block[None, :, None] * BLOCK + column[None, None, :]
    within = kept[:, None, None] & is_block[:, :, None]
    code = tl.load(elements + slot[:, None, None] * WIDTH + place, mask=within, other=0)
    at = slot[:, None] * (WIDTH // 4) + RANK // 4 + block[None, :]
    scale = tl.load(scales + at, mask=kept[:, None] & is_block, other=0)
    values = fp8_values(code, FORMAT) * scale[:, :, None]
    into = latent + token[:, None, None] * RANK + place
    exists = (token < n)[:, None]
    tl.store(
        into, values.to(latent.dtype.element_ty), mask=exists[:, :, None] & is_block[:, :, None]
    )
    at = tl.arange(0, ROPE_BLOCK)
    is_rope = (at < ROPE)[None, :]
    source = slot[:, None] * (WIDTH // 2) + RANK // 2 + 2 * (RANK // BLOCK) + at[None, :]
    given = tl.load(ropes + source, mask=kept[:, None] & is_rope, other=0)
    into = rope + token[:, None] * ROPE + at[None, :]
    tl.store(into, given.to(rope.dtype.element_ty), mask=exists & is_rope)


def plan_store_packed_latent(target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> Launch:
    """The rows of `pack_latent_rows(latent, rope)` to `target[loc[i]]`.

    `target` is uint8 `[slots, 1, packed width]`, dense; parts have dense rows.

    :raises TypeError: for parts of a dtype not in `FLOATS`.
    :raises ValueError: for a target that is not dense, or without whole float32.
    """
    operation = "store_packed_latent_rows"
    device = the_device(operation, (target, loc, latent, rope))
    check_floats(operation, latent.dtype, rope.dtype)
    _check_buffer(operation, target, latent.shape[-1], rope.shape[-1])
    latent, rope = (_dense_rows(part) for part in (latent, rope))
    unit = gcd(8, latent.stride(0), rope.stride(0))
    return Launch(
        kernel=store_packed_latent_kernel,
        grid=(triton.cdiv(loc.shape[0], _TOKENS),),
        arguments={
            "loc": loc.contiguous(),
            "n": loc.shape[0],
            "slots": target.shape[0],
            **_views(target),
            "latent": latent,
            "latent_pitch": latent.stride(0) // unit,
            "rope": rope,
            "rope_pitch": rope.stride(0) // unit,
        },
        constants={
            **_constants(latent.shape[-1], rope.shape[-1]),
            "UNIT": unit,
            "LARGEST": _LARGEST_LATENT,
            "LARGEST_INVERSE": _LARGEST_INVERSE,
        },
        by_architecture={"NATIVE": partial(has_native_fp8, _FORMAT)},
        device=device,
    )


def plan_load_packed_latent(source: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> Launch:
    """What `unpack_latent_rows` gives of `source[loc[i]]`, to `latent` and `rope`, dense.

    :raises TypeError: for parts of a dtype not in `FLOATS`.
    :raises ValueError: for a source that is not dense, or without whole float32.
    """
    operation = "load_packed_latent_rows"
    device = the_device(operation, (source, loc, latent, rope))
    check_floats(operation, latent.dtype, rope.dtype)
    _check_buffer(operation, source, latent.shape[-1], rope.shape[-1])
    return Launch(
        kernel=load_packed_latent_kernel,
        grid=(triton.cdiv(loc.shape[0], _TOKENS),),
        arguments={
            "loc": loc.contiguous(),
            "n": loc.shape[0],
            "slots": source.shape[0],
            **_views(source),
            "latent": latent,
            "rope": rope,
        },
        constants=_constants(latent.shape[-1], rope.shape[-1]),
        device=device,
    )


def check_floats(operation: str, *dtypes: torch.dtype) -> None:
    """:raises TypeError: for one that kernels do not serve."""
    for dtype in dtypes:
        if dtype not in FLOATS:
            served = ", ".join(map(str, FLOATS))
            raise TypeError(f"{operation}: parts are {dtype}; served are {served}")


def _check_buffer(operation: str, buffer: Tensor, rank: int, rope: int) -> None:
    width = packed_latent_width(rank, rope)
    if buffer.shape[-1] != width:
        raise ValueError(
            f"{operation}: rows of the buffer have {buffer.shape[-1]} bytes; parts of {rank} and "
            f"{rope} make {width}; nothing was written"
        )
    if not buffer.is_contiguous():
        raise ValueError(f"{operation}: the buffer is not dense; served are dense buffers")
    if not is_aligned(buffer):
        raise ValueError(
            f"{operation}: rows of {width} bytes begin {buffer.data_ptr() % 4} past a multiple of "
            "4; served are rows of whole float32; nothing was written"
        )


def is_aligned(buffer: Tensor) -> bool:
    """Whether scales of dense rows are at addresses that a float32 is read at."""
    return not (buffer.shape[-1] % 4 or buffer.data_ptr() % 4)


def _views(buffer: Tensor) -> dict[str, object]:
    return {
        "elements": buffer,
        "scales": triton.reinterpret(buffer, tl.float32),
        "ropes": triton.reinterpret(buffer, tl.bfloat16),
    }


def _constants(rank: int, rope: int) -> dict[str, object]:
    return {
        "WIDTH": packed_latent_width(rank, rope),
        "RANK": scales_at(rank),
        "BLOCK": LATENT_BLOCK,
        "BLOCKS": next_power_of_2(rank // LATENT_BLOCK),
        "ROPE": rope,
        "ROPE_BLOCK": next_power_of_2(max(1, rope)),
        "TOKENS": _TOKENS,
        "FORMAT": FORMATS[_FORMAT],
    }


def _dense_rows(part: Tensor) -> Tensor:
    """`[n, width]`, each row dense."""
    flat = part.reshape(part.shape[0], part.shape[-1])
    return flat if flat.stride(1) == 1 else flat.contiguous()
