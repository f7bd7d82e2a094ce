"""Quantise several kinds of row under block scales, and write elements and scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from .apart import apart
from .block_scheme import BlockScheme, is_interleaved
from .interleaved_scales import ATOM, store_interleaved_scales
from .locations import check_locations
from .quantise_fp4 import FP4_BLOCK, quantise_fp4
from .quantise_mxfp8 import MXFP8_BLOCK, quantise_mxfp8
from .store_row_sets import store_row_sets
from .triton_devices import served_by_triton

__all__ = ["BlockSet", "quantise_blocks", "store_block_scaled_rows"]

BlockSet: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor | None]
"""Targets of elements and of scales, rows, and the scale of the tensor, None meaning 1."""


def store_block_scaled_rows(loc: Tensor, sets: Sequence[BlockSet], scheme: BlockScheme) -> None:
    """Elements and scales of row `i` to `loc[i]`, for every set and `loc[i]` of at least 1.

    Rows are `[n, heads, width]` of a float dtype, of whole blocks. Elements go to uint8
    `[slots, heads, bytes]`; scales to uint8 `[slots, heads, blocks]`, to flat `[slots, all]`, or
    to `[pages, heads, 32, page_size // 32, blocks]` as `store_interleaved_scales` does. Where rows
    go is as in `store_row_sets`, what they become as in `quantise_blocks`; a Triton kernel does all
    in one launch, from bfloat16, float16 or float32; rows in the storage of any target are copied
    first.

    :raises ValueError: for rows of another number or width, scales of another shape, dtype or
        number of slots than their elements have, a tensor's scale with `mxfp8`, or a target whose
        rows are not dense, which the kernel does not serve; nothing is written.
    :raises TypeError: for rows of a dtype that the kernel does not serve.
    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    for target, scale_target, rows, tensor_scale in sets:
        _check_set(loc.shape[0], target, rows, scheme)
        _check_scales(scale_target, target, scheme)
        if scheme == "mxfp8" and tensor_scale is not None:
            raise ValueError("mxfp8 has no scale of the tensor, give None; nothing was written")
    if served_by_triton(loc):
        _launch(loc, sets, scheme)
        return
    by_row: list[tuple[Tensor, Tensor]] = []
    interleaved: list[tuple[Tensor, Tensor]] = []
    for target, scale_target, rows, tensor_scale in sets:
        elements, scales = quantise_blocks(rows, scheme, tensor_scale)
        by_row.append((target, elements))
        if is_interleaved(scale_target):
            interleaved.append((scale_target, scales))
        else:
            by_row.append((scale_target, scales.reshape(-1, *scale_target.shape[1:])))
    store_row_sets(loc, by_row)
    for scale_target, scales in interleaved:
        store_interleaved_scales(scale_target, loc, scales)


def quantise_blocks(
    rows: Tensor, scheme: BlockScheme, tensor_scale: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Element bytes and scale bytes of `[..., width]`; `mxfp8` has no scale of the tensor."""
    if scheme == "mxfp8":
        return quantise_mxfp8(rows)
    one = torch.ones((), device=rows.device) if tensor_scale is None else tensor_scale
    return quantise_fp4(rows, scheme, one)


def _launch(loc: Tensor, sets: Sequence[BlockSet], scheme: BlockScheme) -> None:
    from .triton.launch import run
    from .triton.store_block_scaled_rows import plan_store_block_scaled_rows

    for target, scale_target, _, _ in sets:
        check_locations(loc, target.shape[0])
        _check_dense(scale_target)
    targets = [target for each in sets for target in each[:2]]
    placed = [
        (to, scales, apart(rows, *targets), _on(loc.device, scale))
        for to, scales, rows, scale in sets
    ]
    run(plan_store_block_scaled_rows(loc, placed, scheme))


def _check_set(n: int, target: Tensor, rows: Tensor, scheme: BlockScheme) -> None:
    of_a_byte = 1 if scheme == "mxfp8" else 2
    shape = (n, *target.shape[1:-1], target.shape[-1] * of_a_byte)
    if rows.shape != shape:
        raise ValueError(
            f"rows are {tuple(rows.shape)}, must be {shape} for {n} locations of a target "
            f"{tuple(target.shape)}; nothing was written"
        )


def _check_scales(scales: Tensor, target: Tensor, scheme: BlockScheme) -> None:
    (slots, heads), width = target.shape[:2], target.shape[-1]
    blocks = width // MXFP8_BLOCK if scheme == "mxfp8" else 2 * width // FP4_BLOCK
    if is_interleaved(scales):
        chunks = scales.shape[3]
        shape: tuple[int, ...] = (scales.shape[0], heads, ATOM, chunks, blocks)
        fits = scales.shape[0] * ATOM * chunks >= slots
    else:
        shape = (slots, heads * blocks) if scales.dim() == 2 else (slots, heads, blocks)
        fits = True
    if scales.shape != shape or scales.dtype != torch.uint8 or not fits:
        raise ValueError(
            f"scales are {scales.dtype} {tuple(scales.shape)}, must be torch.uint8 {shape} for all "
            f"{slots} slots of elements {tuple(target.shape)}; nothing was written"
        )


def _check_dense(scales: Tensor) -> None:
    if not (scales if is_interleaved(scales) else scales[:1]).is_contiguous():
        raise ValueError(
            f"scales {tuple(scales.shape)} have strides {scales.stride()}; served by the kernel "
            "are dense rows, or dense pages; nothing was written"
        )


def _on(device: torch.device, scale: Tensor | None) -> Tensor | float | None:
    """A scale in host memory is a number to a kernel elsewhere."""
    return scale if scale is None or scale.device == device else float(scale)
