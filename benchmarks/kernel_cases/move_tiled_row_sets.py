"""Tokens to other slots in all layers of a pool whose pages are tiled."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.models import layers_of
from benchmarks.kernel_cases.rows import Moved, tiled_rows
from benchmarks.kernel_cases.tiled import Tiling, buffer_of, tilings
from kvproto.kernels import RowTiles, move_tiled_row_sets
from kvproto.kernels.triton.launch import Launch
from kvproto.kernels.triton.move_row_sets import plan_move_tiled_row_sets

__all__ = ["cases"]

_MODEL = "gpt_oss"


def cases() -> Iterator[Case]:
    """Each layout of one model in bf16 and in fp8's bytes, in registers and staged."""
    for tiling in (*tilings(torch.bfloat16), *tilings(torch.uint8)):
        if tiling.model == _MODEL:
            yield _case(tiling, (16, 200))
            yield _case(tiling, (1000,))


def _case(tiling: Tiling, tokens: tuple[int, ...]) -> Case:
    staged = tokens[0] > 256
    return Case(
        operation="move_tiled_row_sets",
        shape=f"{tiling.name}, staged" if staged else tiling.name,
        inputs=partial(_inputs, tiling),
        plan=partial(_plan, tiling.tiles),
        call=partial(_call, tiling.tiles),
        moves=partial(_moves, tiling.tiles),
        rows=partial(_rows, tiling.tiles),
        tokens=tokens,
        bulk=max(tokens),
        at_most=2.07 if staged else 1.53,
        why="all is read and written twice, and locations for each buffer"
        if staged
        else "locations are read again for every 16 words of a row, whatever those are",
        interpret=not staged or tiling.layout == "hnd",
    )


def _inputs(tiling: Tiling, place: Place) -> Inputs:
    """Half of the sources are targets of other pairs."""
    count = 2 if place.device == "cpu" else layers_of(tiling.model)
    buffers = [buffer_of(place, tiling) for _ in range(count)]
    targets, sources = place.locations(), place.locations()
    sources[::2] = targets.flip(0)[::2]
    return buffers, targets, sources


def _plan(tiles: RowTiles, buffers: list[Tensor], tgt_loc: Tensor, src_loc: Tensor) -> list[Launch]:
    return list(plan_move_tiled_row_sets(buffers, tgt_loc, src_loc, tiles))


def _call(tiles: RowTiles, buffers: list[Tensor], tgt_loc: Tensor, src_loc: Tensor) -> None:
    move_tiled_row_sets(buffers, tgt_loc, src_loc, tiles)


def _moves(tiles: RowTiles, buffers: list[Tensor], tgt_loc: Tensor, src_loc: Tensor) -> int:
    rows = len(buffers) * tiles.row_elements * buffers[0].itemsize
    return tgt_loc.nbytes + src_loc.nbytes + 2 * rows * tgt_loc.shape[0]


def _rows(tiles: RowTiles, buffers: list[Tensor], tgt_loc: Tensor, src_loc: Tensor) -> Moved:
    rows = [tiled_rows(buffer, tiles) for buffer in buffers]
    return Moved(rows, rows)
