"""Buffers of one layer in the layouts of pages, for the shapes of models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Place
from benchmarks.kernel_cases.models import MODELS, heads_of
from kvproto.kernels import RowTiles
from kvproto.reference.row_layouts import RowGeometry, RowKind, RowLayout, RowLayoutName

__all__ = ["PAGE", "Tiling", "buffer_of", "tilings"]

PAGE = 64
"""Tokens."""


class Tiling(NamedTuple):
    """One kind of row of a model, in one layout."""

    model: str
    layout: RowLayoutName
    kind: RowKind
    heads: int
    width: int
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """For the name of a case."""
        return f"{self.model}, {self.layout} {self.kind}s, {str(self.dtype).partition('.')[2]}"

    @property
    def tiles(self) -> RowTiles:
        """Where the rows are, however many pages there are."""
        rows = RowGeometry(self.kind, 1, PAGE, self.heads, self.width, self.dtype.itemsize)
        return RowLayout.of(self.layout, rows).tiles


def tilings(dtype: torch.dtype) -> Iterator[Tiling]:
    """Every layout whose rows are not dense, of each model with keys and values by head."""
    for model in MODELS:
        if heads := heads_of(model):
            yield Tiling(model, "hnd", "key", heads.heads, heads.key, dtype)
            yield Tiling(model, "vectorized_5d", "key", heads.heads, heads.key, dtype)
            yield Tiling(model, "vectorized_5d", "value", heads.heads, heads.value, dtype)


def buffer_of(place: Place, tiling: Tiling) -> Tensor:
    """All pages of a layer, at least three, the reserved one zero; slots of the place are there."""
    pages = -(-place.slots // PAGE) + 2
    whole = replace(place, slots=pages * PAGE)
    buffer = whole.pool(tiling.heads * tiling.width, dtype=tiling.dtype)
    buffer[:PAGE].zero_()
    return buffer.view(-1)
