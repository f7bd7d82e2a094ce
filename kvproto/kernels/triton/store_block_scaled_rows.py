"""Quantise several kinds of row under block scales and write them, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvproto.kernels.block_scheme import BlockScheme, is_interleaved
from kvproto.kernels.interleaved_scales import ATOM
from kvproto.kernels.quantise_fp4 import FP4_BLOCK
from kvproto.kernels.quantise_mxfp8 import MXFP8_BLOCK

from .e2m1 import packed
from .fp8 import FORMATS, has_native_fp8
from .launch import Launch, next_power_of_2, the_device
from .quantise_blocks import fp4_blocks, mxfp8_blocks
from .rows import along_given, cast_shape, pieces_apart, rows_of_a_tile, walked
from .store_fp8_row_sets import FROM

__all__ = ["plan_store_block_scaled_rows", "store_block_scaled_rows_kernel"]

_TILE = 2048
"""Elements that a program has at a time."""

PlacedSet = tuple[Tensor, Tensor, Tensor, Tensor | float | None]
"""As `BlockSet`; a scale of a tensor may be a number."""


class BlockShape(NamedTuple):
    """Rows that become bytes of elements and of scales, counted in elements.

    Elements of a target row are dense, `PITCH` bytes apart. `WIDTH`, `INNER`, `UNIT` and
    `COLUMNS` are as in `RowShape`. A scale is that of `GROUP` elements; those of a head are
    `PER_HEAD`, heads are `HEAD` apart, and so on outwards: `CHUNKS` steps of 32 tokens of a page of
    `PAGE_SIZE`, pages `PAGE`. By token, a page is a token.
    """

    PITCH: int
    WIDTH: int
    INNER: int
    UNIT: int
    COLUMNS: int
    GROUP: int
    PER_BYTE: int
    PAGE: int
    PAGE_SIZE: int
    CHUNKS: int
    HEAD: int
    PER_HEAD: int


@triton.jit
def _scale_places(slot, group, SHAPE: tl.constexpr):
    page, token = slot // SHAPE.PAGE_SIZE, slot % SHAPE.PAGE_SIZE
    row = page * SHAPE.PAGE + (token % 32 * SHAPE.CHUNKS + token // 32) * SHAPE.PER_HEAD
    column = group // SHAPE.PER_HEAD * SHAPE.HEAD + group % SHAPE.PER_HEAD
    return row[:, None] + column[None, :]


@triton.jit
def _store(
    targets,
    rows,
    rows_pitch,
    apart,
    scale,
    slot,
    token,
    kept,
    SHAPE: tl.constexpr,
    SCHEME: tl.constexpr,
    TOKENS: tl.constexpr,
    FORMAT: tl.constexpr,
    NATIVE: tl.constexpr,
):
    GROUPS: tl.constexpr = SHAPE.COLUMNS // SHAPE.GROUP
    BYTES: tl.constexpr = SHAPE.COLUMNS // SHAPE.PER_BYTE
    source = rows + token[:, None] * rows_pitch * SHAPE.UNIT
    into = targets[0] + slot[:, None] * SHAPE.PITCH
    for start in tl.static_range(0, SHAPE.WIDTH, SHAPE.COLUMNS):
        column = start + tl.arange(0, SHAPE.COLUMNS)
        place = along_given(column, apart, SHAPE)
        mask = kept[:, None] & (column < SHAPE.WIDTH)[None, :]
        values = tl.load(source + place[None, :], mask=mask, other=0).to(tl.float32)
        if scale is not None:
            values = tl.div_rn(values, scale + tl.zeros_like(values))
        blocks = tl.reshape(values, (TOKENS, GROUPS, SHAPE.GROUP))
        if SCHEME == "mxfp8":
            codes, scales = mxfp8_blocks(blocks, FORMAT, NATIVE)
            elements = tl.reshape(codes, (TOKENS, BYTES))
        else:
            codes, scales = fp4_blocks(blocks, SCHEME, FORMAT, NATIVE)
            elements = packed(codes, TOKENS, BYTES)
        at = start // SHAPE.PER_BYTE + tl.arange(0, BYTES)
        mask = kept[:, None] & (at < SHAPE.WIDTH // SHAPE.PER_BYTE)[None, :]
        tl.store(into + at[None, :], elements, mask=mask)
        group = start // SHAPE.GROUP + tl.arange(0, GROUPS)
        mask = kept[:, None] & (group < SHAPE.WIDTH // SHAPE.GROUP)[None, :]
        places = _scale_places(slot, group, SHAPE)
        tl.store(targets[1] + places, scales.to(tl.uint8), mask=mask)


@triton.jit(do_not_specialize=["n", "slots"])
def store_block_scaled_rows_kernel(
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
    SCHEME: tl.constexpr,
    TOKENS: tl.constexpr,
    FORMAT: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """A program has the same `TOKENS` rows of every set; what is dropped is neither read."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    for i in tl.static_range(len(SHAPES)):
        scale = tl.load(scales[i]) if SCALED[i] == "tensor" else scales[i]
        _store(
            targets[i],
            rows[i],
            rows_pitches[i],
            aparts[i],
            scale,
            slot,
            token,
            kept,
            SHAPES[i],
            SCHEME,
            TOKENS,
            FORMAT,
            NATIVE,
        )


def plan_store_block_scaled_rows(
    loc: Tensor, sets: Sequence[PlacedSet], scheme: BlockScheme
) -> Launch:
    """Bytes of elements and of scales to `loc`, as `store_block_scaled_rows` has checked them.

    :raises TypeError: for rows of a dtype that is not served.
    :raises ValueError: for a target whose rows are not dense.
    """
    for _, _, rows, _ in sets:
        _check_dtype(rows)
    walks = [walked(rows) for _, _, rows, _ in sets]
    shapes = tuple(
        _shape(each[0], each[1], rows, scheme) for each, rows in zip(sets, walks, strict=True)
    )
    n, tensor_scales = loc.shape[0], [scale for *_, scale in sets]
    tokens = rows_of_a_tile(_TILE, max(shape.COLUMNS for shape in shapes))
    held = [each for each in tensor_scales if isinstance(each, Tensor)]
    given = [tensor for each in sets for tensor in each[:3]]
    return Launch(
        kernel=store_block_scaled_rows_kernel,
        grid=(triton.cdiv(n, tokens),),
        arguments={
            "loc": loc.contiguous(),
            "n": n,
            "slots": min(target.shape[0] for target, *_ in sets),
            "targets": tuple((target, scales) for target, scales, *_ in sets),
            "rows": tuple(walks),
            "rows_pitches": tuple(
                rows.stride(0) // shape.UNIT for rows, shape in zip(walks, shapes, strict=True)
            ),
            "aparts": tuple(
                pieces_apart(rows, shape.UNIT * rows.itemsize)
                for rows, shape in zip(walks, shapes, strict=True)
            ),
            "scales": tuple(tensor_scales),
        },
        constants={
            "SHAPES": shapes,
            "SCALED": tuple("tensor" if isinstance(s, Tensor) else "number" for s in tensor_scales),
            "SCHEME": scheme,
            "TOKENS": tokens,
            "FORMAT": FORMATS[torch.float8_e4m3fn],
        },
        by_architecture={"NATIVE": partial(has_native_fp8, torch.float8_e4m3fn)},
        device=the_device("store_block_scaled_rows", [loc, *given, *held]),
        # A wide store of each thread: 16 elements of 8 bits, 32 of 4.
        threads=_TILE // 16 // shapes[0].PER_BYTE,
    )


def _shape(target: Tensor, scales: Tensor, rows: Tensor, scheme: BlockScheme) -> BlockShape:
    group, per_byte = (MXFP8_BLOCK, 1) if scheme == "mxfp8" else (FP4_BLOCK, 2)
    cast = cast_shape(target, rows, "store_block_scaled_rows")
    width, heads = per_byte * cast.WIDTH, rows.shape[1]
    per_head = width // heads // group
    page_size = ATOM * scales.shape[3] if is_interleaved(scales) else 1
    return BlockShape(
        PITCH=cast.PITCH,
        WIDTH=width,
        INNER=cast.INNER,
        UNIT=cast.UNIT,
        COLUMNS=min(next_power_of_2(width), _TILE),
        GROUP=group,
        PER_BYTE=per_byte,
        PAGE=scales.stride(0),
        PAGE_SIZE=page_size,
        CHUNKS=max(1, page_size // ATOM),
        HEAD=page_size * per_head,
        PER_HEAD=per_head,
    )


def _check_dtype(rows: Tensor) -> None:
    if rows.dtype not in FROM:
        raise TypeError(
            f"store_block_scaled_rows: rows are {rows.dtype}; served are "
            f"{', '.join(map(str, FROM))}; nothing was written"
        )
