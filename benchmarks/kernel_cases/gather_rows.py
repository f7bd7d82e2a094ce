"""Rows at locations, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, heads_of, latent_of
from benchmarks.kernel_cases.rows import Moved, moved
from kvproto.kernels import gather_rows
from kvproto.kernels.triton.gather_rows import plan_gather_rows
from kvproto.kernels.triton.launch import Launch

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Keys of each model, or its latents, in bf16."""
    for model in MODELS:
        if heads := heads_of(model):
            yield _case(model, (heads.heads, heads.key))
        if latent := latent_of(model):
            yield _case(model, (1, latent.kv_lora_rank + latent.qk_rope_head_dim))


def _case(shape: str, row: tuple[int, ...]) -> Case:
    def inputs(place: Place) -> Inputs:
        source = place.pool(*row, dtype=torch.bfloat16)
        return source, place.locations(), place.rows(*row, dtype=torch.bfloat16)

    return Case(
        operation="gather_rows",
        shape=shape,
        inputs=inputs,
        plan=_plan,
        call=_call,
        moves=_moves,
        rows=_rows,
        plain=_plain,
        goal=0.85,
    )


def _plan(source: Tensor, loc: Tensor, out: Tensor) -> list[Launch]:
    return [plan_gather_rows(source, loc, out)]


def _call(source: Tensor, loc: Tensor, out: Tensor) -> None:
    out.copy_(gather_rows(source, loc))


def _moves(source: Tensor, loc: Tensor, out: Tensor) -> int:
    return loc.nbytes + 2 * out.nbytes


def _plain(source: Tensor, loc: Tensor, out: Tensor) -> None:
    torch.index_select(source, 0, loc, out=out)


def _rows(source: Tensor, loc: Tensor, out: Tensor) -> Moved:
    return moved([source], [out])
