"""Quantise index keys, a scale each, and write both to their pages."""

from __future__ import annotations

import torch
from torch import Tensor

from .apart import apart
from .e8m0 import e8m0_at_least, e8m0_value
from .fp8 import to_fp8
from .index_arguments import check_index_loc, check_index_pages, check_index_rows
from .index_page import SCALE_BYTES, IndexLayout
from .store_index_keys import store_index_keys
from .triton_devices import served_by_triton

__all__ = ["quantise_index_keys", "store_quantised_index_keys"]

_PEAKS = {torch.float8_e4m3fn: 448.0, torch.float8_e4m3fnuz: 224.0}
"""What the largest of a row is scaled to: the end of e4m3fn, and half of it where bits mean half.

Not 240, where e4m3fnuz ends: keys have the same bits in both, and those that AMD's engines make.
"""
_SMALLEST_PEAK = 1e-4

_LAUNCHED = (torch.bfloat16, torch.float16, torch.float32)
_SERVED = (*_LAUNCHED, torch.float64)


def quantise_index_keys(
    rows: Tensor, *, round_scale: bool, dtype: torch.dtype = torch.float8_e4m3fn
) -> tuple[Tensor, Tensor]:
    """The bytes of `[n, width]` keys in `dtype` and of their float32 scales, `[n, 4]`; uint8 both.

    A scale is the largest magnitude of its row / 448, at least 1e-4 / 448, which `round_scale`
    rounds up to a power of two. An element is the quotient, to the nearest. `dtype` is e4m3fn, or
    e4m3fnuz: with 224 for 448, so that scales are twice those of e4m3fn.
    """
    exact = rows.to(torch.float32)
    scales = exact.abs().amax(1, keepdim=True).clamp(min=_SMALLEST_PEAK) * (1 / _PEAKS[dtype])
    if round_scale:
        scales = e8m0_value(e8m0_at_least(scales))
    elements = to_fp8(exact / scales, dtype)
    return elements.view(torch.uint8), scales.view(torch.uint8)


def store_quantised_index_keys(
    pages: Tensor,
    loc: Tensor,
    rows: Tensor,
    *,
    round_scale: bool,
    layout: IndexLayout = "token_rows",
    dtype: torch.dtype = torch.float8_e4m3fn,
) -> None:
    """`store_index_keys` of `quantise_index_keys(rows)`: in one launch, where a kernel does it.

    That takes bfloat16, float16 or float32, scales that lie aligned and keys of e4m3fn; otherwise
    the rows are quantised first, float64 too.

    :raises ValueError: for pages as in `store_index_keys`, and for rows of another number, rank
        or dtype; nothing is written.
    :raises IndexError: on the CPU, for a slot past the last; nothing is written.
    """
    check_index_pages("store_quantised_index_keys", pages, rows.shape[-1], layout)
    check_index_loc(pages, loc, rows.shape[-1])
    shape = loc.shape[0], rows.shape[-1]
    check_index_rows("store_quantised_index_keys", rows, *shape, _SERVED)
    scales_at = pages.shape[1] // (rows.shape[1] + SCALE_BYTES) * rows.shape[1]
    is_aligned = not (pages.shape[1] | scales_at | pages.data_ptr()) % SCALE_BYTES
    is_taken = is_aligned and rows.dtype in _LAUNCHED and dtype == torch.float8_e4m3fn
    if is_taken and served_by_triton(pages):
        _launch(pages, loc, rows, round_scale, layout)
    else:
        keys, scales = quantise_index_keys(rows, round_scale=round_scale, dtype=dtype)
        store_index_keys(pages, loc, keys, scales, layout)


def _launch(
    pages: Tensor, loc: Tensor, rows: Tensor, round_scale: bool, layout: IndexLayout
) -> None:
    from .triton.launch import run
    from .triton.store_quantised_index_keys import plan_store_quantised_index_keys

    run(plan_store_quantised_index_keys(pages, loc, apart(rows, pages), round_scale, layout))
