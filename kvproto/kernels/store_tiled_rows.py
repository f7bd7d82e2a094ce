"""Write rows to locations of a tiled buffer, except to the reserved one."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor

from .apart import apart
from .locations import check_locations
from .row_tiles import RowTiles, check_tiled
from .triton_devices import served_by_triton

__all__ = ["check_tiled_rows", "store_tiled_rows"]


def store_tiled_rows(target: Tensor, loc: Tensor, rows: Tensor, tiles: RowTiles) -> None:
    """Row `i` to location `loc[i]`, for every `i` with `loc[i] >= 1`; the rest is dropped.

    `target` is dense, all pages of a layer, its slot 0 zero; `rows` is `[n, ...]` in the logical
    order of `tiles.row`, of the same dtype and any strides, in the target's own memory too: all
    are read before one is written. `loc` and what happens to duplicates are as in `store_rows`:
    one row wins whole, in a kernel each of its accesses. Fixed-shape: dropped rows are zeros for
    slot 0; a kernel does not touch it, and drops locations past the end.

    :raises ValueError: for a target that is not dense, whole pages, and for rows of another number,
        length or dtype; nothing is written.
    :raises IndexError: on the CPU, for a location past the last row; nothing is written.
    """
    check_tiled("store_tiled_rows", target, tiles)
    check_locations(loc, tiles.slots_of(target))
    check_tiled_rows(target, loc.shape[0], rows, rows.dtype, tiles)
    if served_by_triton(target):
        from .triton.launch import run
        from .triton.store_tiled_rows import plan_store_tiled_rows

        run(plan_store_tiled_rows(target, loc, apart(rows, target), tiles))
        return
    units = target.view(-1, tiles.unit)
    given = rows.reshape(loc.shape[0], tiles.row_elements)
    kept = torch.where((loc > 0).unsqueeze(-1), given, torch.zeros_like(given[:1]))
    units.index_copy_(0, tiles.units(loc.clamp(min=0)), kept.reshape(-1, tiles.unit))


def check_tiled_rows(
    target: Tensor, n: int, rows: Tensor, dtype: torch.dtype, tiles: RowTiles
) -> None:
    """Whether rows can be stored: `dtype` is that of the rows as they are stored.

    :raises ValueError: naming what they are and must be.
    """
    given = rows.shape[:1], prod(rows.shape[1:])
    if dtype != target.dtype or given != ((n,), tiles.row_elements):
        raise ValueError(
            f"store_tiled_rows: rows are {dtype} {tuple(rows.shape)}, must be {target.dtype} "
            f"of {tiles.row_elements} elements each for {n} locations; nothing was written"
        )
