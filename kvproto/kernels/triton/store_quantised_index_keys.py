"""Quantise index keys and write them with their scales to pages, in one launch."""

from __future__ import annotations

from functools import partial
from math import gcd

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvproto.kernels.index_page import IndexLayout

from .e8m0 import e8m0_at_least, e8m0_inverse, is_nan
from .fp8 import FORMATS, fp8_bytes, has_native_fp8
from .index_pages import dense_tokens, key_bytes_shape, page_shapes, place_in_page, place_in_part
from .launch import Launch, the_device
from .rows import WIDEST, address, rows_of_a_tile

__all__ = ["plan_store_quantised_index_keys", "store_quantised_index_keys_kernel"]

_TILE = 2048
"""Elements that a program has: 16 of each thread are one wide store."""


@triton.jit
def _scale(values, ROUNDED: tl.constexpr):
    """Of every row, as `quantise_index_keys` makes it: NaN for one with a NaN."""
    peak = tl.maximum(tl.max(tl.abs(values), axis=1), 1e-4) * (1 / 448.0)
    if ROUNDED:
        # The inverse of the code of one over the power is the power.
        peak = e8m0_inverse(254 - e8m0_at_least(peak))
    has_nan = tl.max(is_nan(values).to(tl.int32), axis=1) > 0
    return tl.where(has_nan, float("nan"), peak)


@triton.jit(do_not_specialize=["n", "slots"])
def store_quantised_index_keys_kernel(
    loc,
    n,
    slots,
    keys,
    scales,
    rows,
    rows_pitch,
    KEYS: tl.constexpr,
    SCALES: tl.constexpr,
    UNIT: tl.constexpr,
    TOKENS: tl.constexpr,
    ROUNDED: tl.constexpr,
    FORMAT: tl.constexpr,
    NATIVE: tl.constexpr,
):
    """A program has `TOKENS` keys; what is dropped is not read. `rows_pitch` is in `UNIT`."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    column = tl.arange(0, KEYS.BLOCK)
    mask = kept[:, None] & (column < KEYS.WIDTH)[None, :]
    source = rows + token[:, None] * rows_pitch * UNIT + column[None, :]
    values = tl.load(source, mask=mask, other=0).to(tl.float32)
    scale = _scale(values, ROUNDED)
    elements = fp8_bytes(tl.div_rn(values, scale[:, None] + tl.zeros_like(values)), FORMAT, NATIVE)
    into = place_in_page(slot, KEYS)[:, None] + place_in_part(column, KEYS)[None, :]
    tl.store(keys + into, elements, mask=mask)
    tl.store(scales + place_in_page(slot, SCALES), scale.to(tl.int32, bitcast=True), mask=kept)


def plan_store_quantised_index_keys(
    pages: Tensor, loc: Tensor, rows: Tensor, round_scale: bool, layout: IndexLayout = "token_rows"
) -> Launch:
    """Keys of `[n, width]` rows to the index slots `loc`, in pages whose scales are aligned."""
    rows, n = dense_tokens(rows), loc.shape[0]
    keys, scales = page_shapes(pages, rows.shape[1], None, layout)
    load = gcd(rows.data_ptr(), WIDEST, rows.stride(0) * rows.itemsize, rows[:1].nbytes)
    tokens, unit = rows_of_a_tile(_TILE, rows.shape[1]), max(1, load // rows.itemsize)
    return Launch(
        kernel=store_quantised_index_keys_kernel,
        grid=(triton.cdiv(n, tokens),),
        arguments={
            "loc": loc.contiguous(),
            "n": n,
            "slots": pages.shape[0] * keys.PAGE_SIZE,
            "keys": pages,
            "scales": address(pages, scales.WORD),
            "rows": rows,
            "rows_pitch": rows.stride(0) // unit,
        },
        constants={
            "KEYS": key_bytes_shape(keys),
            "SCALES": scales,
            "UNIT": unit,
            "TOKENS": tokens,
            "ROUNDED": round_scale,
            "FORMAT": FORMATS[torch.float8_e4m3fn],
        },
        by_architecture={"NATIVE": partial(has_native_fp8, torch.float8_e4m3fn)},
        device=the_device("store_quantised_index_keys", [pages, loc, rows]),
    )
