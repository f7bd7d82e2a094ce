"""Keys and values of a token, quantised under block scales as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, Heads, heads_of, latent_of
from benchmarks.kernel_cases.rows import Moved, moved
from kvproto.kernels import ATOM, FP4_BLOCK, MXFP8_BLOCK, BlockScheme, store_block_scaled_rows
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.store_block_scaled_rows import plan_store_block_scaled_rows

__all__ = ["cases"]

Sets = Sequence[tuple[Tensor, Tensor, Tensor, Tensor | None]]

_PAGE = 128
"""Tokens of a page whose scales are interleaved."""


def cases() -> Iterator[Case]:
    """Each model whose heads are whole blocks; latents in four bits; interleaved scales of one."""
    for model in MODELS:
        heads = heads_of(model)
        if heads and heads.key % MXFP8_BLOCK == heads.value % MXFP8_BLOCK == 0:
            yield _case(f"{model}, mxfp8", heads, "mxfp8")
            yield _case(f"{model}, nvfp4", heads, "nvfp4")
        if latent := latent_of(model):
            width = latent.kv_lora_rank + latent.qk_rope_head_dim
            yield _case(f"{model}, fp4_mx16", Heads(1, width, 0), "fp4_mx16")
    yield _case("mistral, fp4_mx16", Heads(4, 128, 128), "fp4_mx16")
    yield _case("mistral, mxfp8 interleaved", Heads(4, 128, 128), "mxfp8", interleaved=True)


def _case(shape: str, heads: Heads, scheme: BlockScheme, *, interleaved: bool = False) -> Case:
    group, per_byte = (MXFP8_BLOCK, 1) if scheme == "mxfp8" else (FP4_BLOCK, 2)
    widths = [width for width in (heads.key, heads.value) if width]

    def targets(place: Place, width: int) -> tuple[Tensor, Tensor]:
        blocks = width // group
        elements = place.pool(heads.heads, width // per_byte, dtype=torch.uint8)
        if not interleaved:
            return elements, place.pool(heads.heads, blocks, dtype=torch.uint8)
        pages = place.slots // _PAGE + 1
        scales = (pages, heads.heads, ATOM, _PAGE // ATOM, blocks)
        held = place.whole(*scales, dtype=torch.uint8)
        held[0, :, 0, 0].zero_()
        return elements, held

    def inputs(place: Place) -> Inputs:
        """Rows in bf16, slices of rows that hold queries too."""
        queries = 4 * heads.heads * heads.key
        fused = place.rows(queries + heads.heads * sum(widths), dtype=torch.bfloat16)
        ends = [queries + heads.heads * sum(widths[:i]) for i in range(len(widths) + 1)]
        given = [fused[:, start:end] for start, end in pairwise(ends)]
        scale = torch.full((), 0.0173, device=place.device) if scheme == "nvfp4" else None
        sets = [
            (*targets(place, width), rows.view(-1, heads.heads, width), scale)
            for width, rows in zip(widths, given, strict=True)
        ]
        return place.locations(), sets, scheme

    return Case(
        operation="store_block_scaled_rows",
        shape=shape,
        inputs=inputs,
        plan=_plan,
        call=store_block_scaled_rows,
        moves=_moves,
        rows=_rows,
        at_most=1.01 if scheme == "nvfp4" else 1.0,
        why="every program reads the scale of the tensor" if scheme == "nvfp4" else "",
    )


def _plan(loc: Tensor, sets: Sets, scheme: BlockScheme) -> list[Launch]:
    return [plan_store_block_scaled_rows(loc, sets, scheme)]


def _moves(loc: Tensor, sets: Sets, scheme: BlockScheme) -> int:
    group, per_byte = (MXFP8_BLOCK, 1) if scheme == "mxfp8" else (FP4_BLOCK, 2)
    numbers = sum(rows.numel() for *_, rows, _ in sets)
    given = sum(rows.nbytes + (scale is not None) * 4 for *_, rows, scale in sets)
    return loc.nbytes + given + numbers // per_byte + numbers // group


def _rows(loc: Tensor, sets: Sets, scheme: BlockScheme) -> Moved:
    """Scales of blocks are one or a few bytes of a row, written beside its elements."""
    return moved((rows for *_, rows, _ in sets), (elements for elements, *_ in sets))
