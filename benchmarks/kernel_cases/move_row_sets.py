"""Tokens to other slots, in all layers of a pool."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, heads_of, latent_of, layers_of
from benchmarks.kernel_cases.rows import Moved, moved
from kvproto.kernels import move_row_sets
from kvproto.kernels.triton.move_row_sets import plan_move_row_sets

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Each model in bf16: few pairs and many in registers, and more of them staged in memory."""
    for model in MODELS:
        rows = _rows_of(model)
        yield _case(model, rows, layers_of(model), (16, 200))
        yield _case(f"{model}, staged", rows, layers_of(model), (1000,))


def _rows_of(model: str) -> tuple[tuple[int, ...], ...]:
    if heads := heads_of(model):
        return (heads.heads, heads.key), (heads.heads, heads.value)
    latent = latent_of(model)
    return ((1, latent.kv_lora_rank + latent.qk_rope_head_dim),) if latent else ()


def _case(
    shape: str, rows: tuple[tuple[int, ...], ...], layers: int, tokens: tuple[int, ...]
) -> Case:
    staged = tokens[0] > 256

    def inputs(place: Place) -> Inputs:
        """Half of the sources are targets of other pairs."""
        count = 2 if place.device == "cpu" else layers
        buffers = [place.pool(*row, dtype=torch.bfloat16) for row in rows for _ in range(count)]
        targets, sources = place.locations(), place.locations()
        sources[::2] = targets.flip(0)[::2]
        return buffers, targets, sources

    return Case(
        operation="move_row_sets",
        shape=shape,
        inputs=inputs,
        plan=plan_move_row_sets,
        call=move_row_sets,
        moves=_moves,
        rows=_rows,
        plain=_plain,
        bulk=max(tokens),
        goal=0.85,
        tokens=tokens,
        at_most=2.14 if staged else 1.07,
        why="all is read and written twice, and locations for each buffer"
        if staged
        else "locations are read again for every 128 bytes of a row",
        interpret=not staged or shape.startswith(("gpt_oss", "deepseek_v3,")),
    )


def _moves(buffers: list[Tensor], tgt_loc: Tensor, src_loc: Tensor) -> int:
    rows = sum(buffer[:1].nbytes for buffer in buffers)
    return tgt_loc.nbytes + src_loc.nbytes + 2 * rows * tgt_loc.shape[0]


def _plain(buffers: list[Tensor], tgt_loc: Tensor, src_loc: Tensor) -> None:
    for buffer in buffers:
        buffer.index_put_((tgt_loc,), buffer.index_select(0, src_loc))


def _rows(buffers: list[Tensor], tgt_loc: Tensor, src_loc: Tensor) -> Moved:
    return moved(buffers, buffers)
