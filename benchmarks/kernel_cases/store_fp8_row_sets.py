"""Keys and values of a token, quantised as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, Heads, heads_of
from benchmarks.kernel_cases.rows import Moved, moved
from kvproto.kernels import store_fp8_row_sets
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.store_fp8_row_sets import plan_store_fp8_row_sets

__all__ = ["cases"]

Sets = Sequence[tuple[Tensor, Tensor, Tensor | None]]


def cases() -> Iterator[Case]:
    """Each model with keys and values by head under a scale; one in all formats, without too."""
    for model in MODELS:
        if heads := heads_of(model):
            yield _case(f"{model}, e4m3fn", heads, torch.float8_e4m3fn)
    for dtype in (torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz):
        name = str(dtype).partition("_")[2]
        yield _case(f"mistral, {name}", Heads(4, 128, 128), dtype)
        yield _case(f"mistral, {name} unscaled", Heads(4, 128, 128), dtype, scaled=False)


def _case(shape: str, heads: Heads, dtype: torch.dtype, *, scaled: bool = True) -> Case:
    def inputs(place: Place) -> Inputs:
        """Rows in bf16, slices of rows that hold queries too."""
        keys = heads.heads * heads.key
        fused = place.rows(4 * keys + keys + heads.heads * heads.value, dtype=torch.bfloat16)
        given = ((heads.key, fused[:, 4 * keys : 5 * keys]), (heads.value, fused[:, 5 * keys :]))
        sets = [
            (
                place.pool(heads.heads, width, dtype=torch.uint8),
                rows.view(-1, heads.heads, width),
                torch.full((), 0.0173, device=place.device) if scaled else None,
            )
            for width, rows in given
        ]
        return place.locations(), sets, dtype

    return Case(
        operation="store_fp8_row_sets",
        shape=shape,
        inputs=inputs,
        plan=_plan,
        call=store_fp8_row_sets,
        moves=_moves,
        rows=_rows,
        plain=_plain,
        goal=0.85,
        at_most=1.01 if scaled else 1.0,
        why="every program reads the scales" if scaled else "",
    )


def _plan(loc: Tensor, sets: Sets, dtype: torch.dtype) -> list[Launch]:
    pairs = [(target, rows) for target, rows, _ in sets]
    return [plan_store_fp8_row_sets(loc, pairs, [scale for *_, scale in sets], dtype)]


def _moves(loc: Tensor, sets: Sets, dtype: torch.dtype) -> int:
    scales = sum(4 for *_, scale in sets if scale is not None)
    rows = sum(rows.nbytes + rows.numel() * dtype.itemsize for _, rows, _ in sets)
    return loc.nbytes + rows + scales


def _plain(loc: Tensor, sets: Sets, dtype: torch.dtype) -> None:
    """Quantised before, so that it is the store alone."""
    for target, rows, _ in sets:
        target.index_put_((loc,), rows.to(dtype).view(torch.uint8))


def _rows(loc: Tensor, sets: Sets, dtype: torch.dtype) -> Moved:
    return moved((rows for _, rows, _ in sets), (target for target, *_ in sets))
