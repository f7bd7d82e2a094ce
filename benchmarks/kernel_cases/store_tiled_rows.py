"""Keys or values of a token into pages that are tiled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.rows import Moved, plain_rows, tiled_rows
from benchmarks.kernel_cases.tiled import Tiling, buffer_of, tilings
from kvproto.kernels import RowTiles, store_tiled_rows
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.store_tiled_rows import plan_store_tiled_rows

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Each layout of each model in bf16; one of them in fp8's bytes."""
    every = [*tilings(torch.bfloat16), *list(tilings(torch.uint8))[:3]]
    for tiling in every:
        yield Case(
            operation="store_tiled_rows",
            shape=tiling.name,
            inputs=partial(_inputs, tiling),
            plan=partial(_plan, tiling.tiles),
            call=partial(_call, tiling.tiles),
            moves=_moves,
            rows=partial(_rows, tiling.tiles),
            tokens=(64,),
        )


def _inputs(tiling: Tiling, place: Place) -> Inputs:
    """Rows are slices of rows that hold queries too."""
    width = tiling.heads * tiling.width
    rows = place.rows(5 * width, dtype=tiling.dtype)[:, 4 * width :]
    given = rows.view(-1, tiling.heads, tiling.width)
    return buffer_of(place, tiling), place.locations(), given


def _plan(tiles: RowTiles, target: Tensor, loc: Tensor, rows: Tensor) -> list[Launch]:
    return [plan_store_tiled_rows(target, loc, rows, tiles)]


def _call(tiles: RowTiles, target: Tensor, loc: Tensor, rows: Tensor) -> None:
    store_tiled_rows(target, loc, rows, tiles)


def _moves(target: Tensor, loc: Tensor, rows: Tensor) -> int:
    return loc.nbytes + 2 * rows.nbytes


def _rows(tiles: RowTiles, target: Tensor, loc: Tensor, rows: Tensor) -> Moved:
    return Moved(plain_rows([rows]), [tiled_rows(target, tiles)])
