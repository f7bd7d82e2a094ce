"""Pages of a layer from one layout into another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernel_cases.case import Case, Inputs, Place
from benchmarks.kernel_cases.rows import Moved, tiled_rows
from benchmarks.kernel_cases.tiled import PAGE, Tiling, buffer_of, tilings
from kvproto.kernels import RowTiles, convert_pages
from kvproto.kernels.triton.convert_pages import plan_convert_pages
from kvproto.kernels.triton.launch import Launch

__all__ = ["cases"]


def cases() -> Iterator[Case]:
    """Each layout of each model from dense rows, and back; bf16, and one in fp8's bytes."""
    every = [*tilings(torch.bfloat16), *list(tilings(torch.uint8))[:3]]
    for tiling in every:
        dense = tiling._replace(layout="paged_nhd")
        for old, new in ((dense, tiling), (tiling, dense)):
            yield Case(
                operation="convert_pages",
                shape=f"{old.name} to {new.layout}",
                inputs=partial(_inputs, old),
                plan=partial(_plan, old.tiles, new.tiles),
                call=partial(_call, old.tiles, new.tiles),
                moves=partial(_moves, old.tiles),
                rows=partial(_rows, old.tiles, new.tiles),
                tokens=(64,),
                at_most=1.01,
                why="every tile of a page reads which page it is of",
                interpret=tiling.model == "gpt_oss",
            )


def _inputs(tiling: Tiling, place: Place) -> Inputs:
    """Half of the pages, the others are left as they are."""
    source, target = buffer_of(place, tiling), buffer_of(place, tiling)
    count = max(2, place.tokens // PAGE)
    pages = torch.arange(1, 1 + count, device=place.device)
    targets = pages.flip(0)
    if place.device != "meta" and place.padding:
        targets[0] = 0
    return source, pages, target, targets


def _plan(
    old: RowTiles, new: RowTiles, source: Tensor, pages: Tensor, target: Tensor, targets: Tensor
) -> list[Launch]:
    return [plan_convert_pages(source, old, pages, target, new, targets)]


def _call(
    old: RowTiles, new: RowTiles, source: Tensor, pages: Tensor, target: Tensor, targets: Tensor
) -> None:
    convert_pages(source, old, pages, target, new, targets)


def _moves(tiles: RowTiles, source: Tensor, pages: Tensor, target: Tensor, targets: Tensor) -> int:
    whole = tiles.page_stride * source.itemsize * pages.shape[0]
    return pages.nbytes + targets.nbytes + 2 * whole


def _rows(
    old: RowTiles, new: RowTiles, source: Tensor, pages: Tensor, target: Tensor, targets: Tensor
) -> Moved:
    read = tiled_rows(source, old, whole_pages=True)
    return Moved([read], [tiled_rows(target, new, whole_pages=True)])
