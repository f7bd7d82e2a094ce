"""Quantise several kinds of row to fp8 and write them to the same locations, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..row_tiles import RowTiles
from .fp8 import FORMATS, fp8_bytes, has_native_fp8
from .launch import Launch, the_device
from .moved_rows import along, row_at
from .rows import CastShape, along_given, cast_shape, pieces_apart, rows_of_a_tile, walked
from .tiles import tile_shape

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
    apart,
    scale,
    slot,
    token,
    kept,
    SHAPE: tl.constexpr,
    FORMAT: tl.constexpr,
    NATIVE: tl.constexpr,
):
    into = target + row_at(slot, SHAPE)[:, None]
    source = rows + token[:, None] * rows_pitch * SHAPE.UNIT
    for start in tl.static_range(0, SHAPE.WIDTH, SHAPE.BLOCK):
        column = start + tl.arange(0, SHAPE.BLOCK)
        mask = kept[:, None] & (column < SHAPE.WIDTH)[None, :]
        place = along_given(column, apart, SHAPE)
        values = tl.load(source + place[None, :], mask=mask, other=0).to(tl.float32)
        if scale is not None:
            values = tl.div_rn(values, scale + tl.zeros_like(values))
        there = along(column, SHAPE)[None, :]
        tl.store(into + there, fp8_bytes(values, FORMAT, NATIVE), mask=mask)


@triton.jit(do_not_specialize=["n", "slots"])
def store_fp8_row_sets_kernel(
    loc,
    n,
    slots,
    targets,
    rows,
    rows_pitches,
    aparts,
    scales,
    SHAPES: tl.constexpr,
    SCALED: tl.constexpr,
    TOKENS: tl.constexpr,
    FORMAT: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """A program has the same `TOKENS` rows of every set; what is dropped is neither read."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    for i in tl.static_range(len(targets)):
        scale = tl.load(scales[i]) if SCALED[i] == "tensor" else scales[i]
        into, given, pitch, apart = targets[i], rows[i], rows_pitches[i], aparts[i]
        _store(into, given, pitch, apart, scale, slot, token, kept, SHAPES[i], FORMAT, NATIVE)


def plan_store_fp8_row_sets(
    loc: Tensor,
    sets: Sequence[tuple[Tensor, Tensor]],
    scales: Sequence[Tensor | float | None],
    dtype: torch.dtype,
    tiles: Sequence[RowTiles] = (),
) -> Launch:
    """The bytes of `to_fp8(rows, dtype, scale)` to `target[loc[i]]`, for every set and its scale.

    Scales are as `checked_scale` gives them; targets are uint8, dense pages where `tiles` say for
    each where its rows lie.

    :raises TypeError: for rows of a dtype not in `FROM`.
    :raises ValueError: for a target whose rows are not dense.
    """
    device = the_device("store_fp8_row_sets", _tensors(loc, sets, scales))
    for _, rows in sets:
        _check_dtype(rows)
    sets = [(target, walked(rows)) for target, rows in sets]
    places: Sequence[RowTiles | None] = tiles or [None] * len(sets)
    shapes = tuple(_shape(*each, at) for each, at in zip(sets, places, strict=True))
    n, widest = loc.shape[0], max(shape.WIDTH for shape in shapes)
    tokens = rows_of_a_tile(_LARGE_TILE if n >= _MANY else _TILE, widest)
    return Launch(
        kernel=store_fp8_row_sets_kernel,
        grid=(triton.cdiv(n, tokens),),
        arguments={
            "loc": loc.contiguous(),
            "n": n,
            "slots": min(
                target.shape[0] if at is None else at.slots_of(target)
                for (target, _), at in zip(sets, places, strict=True)
            ),
            "targets": tuple(target for target, _ in sets),
            "rows": tuple(rows for _, rows in sets),
            "rows_pitches": tuple(
                rows.stride(0) // shape.UNIT for (_, rows), shape in zip(sets, shapes, strict=True)
            ),
            "aparts": tuple(
                pieces_apart(rows, shape.UNIT * rows.itemsize)
                for (_, rows), shape in zip(sets, shapes, strict=True)
            ),
            "scales": tuple(scales),
        },
        constants={
            "SHAPES": shapes,
            "SCALED": tuple("tensor" if isinstance(s, Tensor) else "number" for s in scales),
            "TOKENS": tokens,
            "FORMAT": FORMATS[dtype],
        },
        by_architecture={"NATIVE": partial(has_native_fp8, dtype)},
        device=device,
    )


def _shape(target: Tensor, rows: Tensor, tiles: RowTiles | None) -> CastShape:
    if tiles is None:
        return cast_shape(target, rows, "store_fp8_row_sets")
    dense = target.view(-1, *rows.shape[1:])
    shape = cast_shape(dense, rows, "store_fp8_row_sets")
    return shape._replace(TILES=tile_shape(tiles, target.itemsize, target.itemsize))


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
