"""Keys or values of some tokens out of pages that are tiled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.rows import Moved, plain_rows, tiled_rows
from benchmarks.kernel_cases.tiled import Tiling, buffer_of, tilings
from kvproto.kernels import RowTiles, gather_tiled_rows
from kvproto.kernels.triton.gather_tiled_rows import plan_gather_tiled_rows
from kvproto.kernels.triton.launch import Launch

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Each layout of each model in bf16; one of them in fp8's bytes."""
    every = [*tilings(torch.bfloat16), *list(tilings(torch.uint8))[:3]]
    for tiling in every:
        yield Case(
            operation="gather_tiled_rows",
            shape=tiling.name,
            inputs=partial(_inputs, tiling),
            plan=partial(_plan, tiling.tiles),
            call=partial(_call, tiling.tiles),
            moves=_moves,
            rows=partial(_rows, tiling.tiles),
            tokens=(64,),
        )


def _inputs(tiling: Tiling, place: Place) -> Inputs:
    out = place.rows(tiling.heads * tiling.width, dtype=tiling.dtype)
    return buffer_of(place, tiling), place.locations(), out


def _plan(tiles: RowTiles, source: Tensor, loc: Tensor, out: Tensor) -> list[Launch]:
    return [plan_gather_tiled_rows(source, loc, tiles, out)]


def _call(tiles: RowTiles, source: Tensor, loc: Tensor, out: Tensor) -> None:
    out.copy_(gather_tiled_rows(source, loc, tiles))


def _moves(source: Tensor, loc: Tensor, out: Tensor) -> int:
    return loc.nbytes + 2 * out.nbytes


def _rows(tiles: RowTiles, source: Tensor, loc: Tensor, out: Tensor) -> Moved:
    return Moved([tiled_rows(source, tiles)], plain_rows([out]))
