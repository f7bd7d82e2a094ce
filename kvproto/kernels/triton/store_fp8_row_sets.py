"""Quantise several kinds of row to fp8 and write them to the same locations, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fp8 import FORMATS, fp8_bytes, has_native_fp8
from .launch import Launch, the_device
from .rows import cast_shape, rows_of_a_tile, walked

__all__ = ["FROM", "plan_store_fp8_row_sets", "store_fp8_row_sets_kernel"]

FROM = (torch.bfloat16, torch.float16, torch.float32)
"""What rows may be in."""

_MANY = 4096
_TILE, _LARGE_TILE = 2048, 4096
"""Elements of a row that a program has: 16 of each thread are one wide store."""


@triton.jit
def _store(
    target,
    rows,
    rows_pitch,
    scale,
    slot,
    token,
    kept,
    SHAPE: tl.constexpr,
    FORMAT: tl.constexpr,
    NATIVE: tl.constexpr,
):
    into = target + slot.to(tl.int64)[:, None] * SHAPE.PITCH
    source = rows + token[:, None] * rows_pitch * SHAPE.UNIT
    for start in tl.static_range(0, SHAPE.WIDTH, SHAPE.BLOCK):
        column = start + tl.arange(0, SHAPE.BLOCK)
        mask = kept[:, None] & (column < SHAPE.WIDTH)[None, :]
        place = (column // SHAPE.INNER) * SHAPE.OUTER + column % SHAPE.INNER
        values = tl.load(source + place[None, :], mask=mask, other=0).to(tl.float32)
        if scale is not None:
            values = tl.div_rn(values, scale + tl.zeros_like(values))
        tl.store(into + column[None, :], fp8_bytes(values, FORMAT, NATIVE), mask=mask)


@triton.jit(do_not_specialize=["n", "slots"])
def store_fp8_row_sets_kernel(
    loc,
    n,
    slots,
    targets,
    rows,
    rows_pitches,
    scales,
    LOC_PITCH: tl.constexpr,
    SHAPES: tl.constexpr,
    SCALED: tl.constexpr,
    TOKENS: tl.constexpr,
    FORMAT: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """A program has the same `TOKENS` rows of every set; what is dropped is neither read."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token * LOC_PITCH, mask=token < n, other=0)
    kept = (slot > 0) & (slot < slots)
    for i in tl.static_range(len(targets)):
        scale = tl.load(scales[i]) if SCALED[i] == "tensor" else scales[i]
        into, given, pitch = targets[i], rows[i], rows_pitches[i]
        _store(into, given, pitch, scale, slot, token, kept, SHAPES[i], FORMAT, NATIVE)


def plan_store_fp8_row_sets(
    loc: Tensor,
    sets: Sequence[tuple[Tensor, Tensor]],
    scales: Sequence[Tensor | float | None],
    dtype: torch.dtype,
) -> Launch:
    """The bytes of `to_fp8(rows, dtype, scale)` to `target[loc[i]]`, for every set and its scale.

    Scales are as `checked_scale` gives them; targets are uint8.

    :raises TypeError: for rows of a dtype not in `FROM`.
    :raises ValueError: for a target whose rows are not dense.
    """
    device = the_device("store_fp8_row_sets", _tensors(loc, sets, scales))
    for _, rows in sets:
        _check_dtype(rows)
    sets = [(target, walked(rows)) for target, rows in sets]
    shapes = tuple(cast_shape(target, rows, "store_fp8_row_sets") for target, rows in sets)
    n, widest = loc.shape[0], max(shape.WIDTH for shape in shapes)
    tokens = rows_of_a_tile(_LARGE_TILE if n >= _MANY else _TILE, widest)
    return Launch(
        kernel=store_fp8_row_sets_kernel,
        grid=(triton.cdiv(n, tokens),),
        arguments={
            "loc": loc.contiguous(),
            "n": n,
            "slots": min(target.shape[0] for target, _ in sets),
            "targets": tuple(target for target, _ in sets),
            "rows": tuple(rows for _, rows in sets),
            "rows_pitches": tuple(
                rows.stride(0) // shape.UNIT for (_, rows), shape in zip(sets, shapes, strict=True)
            ),
            "scales": tuple(scales),
        },
        constants={
            "LOC_PITCH": 1,
            "SHAPES": shapes,
            "SCALED": tuple("tensor" if isinstance(s, Tensor) else "number" for s in scales),
            "TOKENS": tokens,
            "FORMAT": FORMATS[dtype],
        },
        by_architecture={"NATIVE": partial(has_native_fp8, dtype)},
        device=device,
    )


def _check_dtype(rows: Tensor) -> None:
    if rows.dtype not in FROM:
        raise TypeError(
            f"store_fp8_row_sets: rows are {rows.dtype}; served are {', '.join(map(str, FROM))}; "
            "nothing was written"
        )


def _tensors(
    loc: Tensor, sets: Sequence[tuple[Tensor, Tensor]], scales: Sequence[Tensor | float | None]
) -> list[Tensor]:
    given = [tensor for each in sets for tensor in each]
    return [loc, *given, *(scale for scale in scales if isinstance(scale, Tensor))]
