"""Keys and values of a token with its index key and index value, by `store_row_sets` at once."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import SPARSE, Heads, heads_of, index_of
from benchmarks.kernel_cases.store_row_sets import (
    bytes_moved,
    planned,
    rows_stored,
    stored_by_torch,
)
from kvproto.kernels import store_row_sets

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Layers with index values, and layers whose index values nobody reads, in bf16."""
    for model in SPARSE:
        heads, index = heads_of(model), index_of(model)
        if heads and index:
            yield _case(f"{model}, index keys and values", heads, (index.head_dim,) * 2)
            yield _case(f"{model}, index keys", heads, (index.head_dim,))


def _case(shape: str, heads: Heads, index: tuple[int, ...]) -> Case:
    rows = [(heads.heads, heads.key), (heads.heads, heads.value), *((1, width) for width in index)]

    def inputs(place: Place) -> Inputs:
        """Each kind of row out of a projection of its own."""
        kinds = [
            (place.pool(*row, dtype=torch.bfloat16), place.rows(*row, dtype=torch.bfloat16))
            for row in rows
        ]
        return place.locations(), kinds

    return Case(
        operation="store_sparse_index_rows",
        shape=shape,
        inputs=inputs,
        plan=planned,
        call=store_row_sets,
        moves=bytes_moved,
        rows=rows_stored,
        plain=stored_by_torch,
        goal=0.85,
    )
