"""Keys and values of a token, out of the fused projection that a model computes."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import MODELS, Heads, heads_of
from benchmarks.kernel_cases.rows import Moved, moved
from kvproto.kernels import store_row_sets
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.store_row_sets import plan_store_row_sets

__all__ = ["bytes_moved", "cases", "planned", "rows_stored", "stored_by_torch"]

Sets = list[tuple[Tensor, Tensor]]


def cases() -> Iterator[Case]:
    """Each model with keys and values by head, in bf16 and in bytes of fp8."""
    for model in MODELS:
        if heads := heads_of(model):
            yield _case(f"{model}, bf16", heads, torch.bfloat16)
            yield _case(f"{model}, uint8", heads, torch.uint8)


def _case(shape: str, heads: Heads, dtype: torch.dtype) -> Case:
    def inputs(place: Place) -> Inputs:
        """Rows are slices of rows that hold queries too."""
        queries, keys = 4 * heads.heads * heads.key, heads.heads * heads.key
        fused = place.rows(queries + keys + heads.heads * heads.value, dtype=dtype)
        given = (
            (heads.key, fused[:, queries : queries + keys]),
            (heads.value, fused[:, queries + keys :]),
        )
        sets = [
            (place.pool(heads.heads, width, dtype=dtype), rows.view(-1, heads.heads, width))
            for width, rows in given
        ]
        return place.locations(), sets

    return Case(
        operation="store_row_sets",
        shape=shape,
        inputs=inputs,
        plan=planned,
        call=store_row_sets,
        moves=bytes_moved,
        rows=rows_stored,
        plain=stored_by_torch,
        goal=0.85,
    )


def planned(loc: Tensor, sets: Sets) -> list[Launch]:
    """One launch."""
    return [plan_store_row_sets(loc, sets)]


def bytes_moved(loc: Tensor, sets: Sets) -> int:
    """Bytes of locations, and of all rows twice."""
    return loc.nbytes + 2 * sum(rows.nbytes for _, rows in sets)


def stored_by_torch(loc: Tensor, sets: Sets) -> None:
    """Set after set."""
    for target, rows in sets:
        target.index_put_((loc,), rows)


def rows_stored(loc: Tensor, sets: Sets) -> Moved:
    """Given rows, and their targets."""
    return moved((rows for _, rows in sets), (target for target, _ in sets))
