"""Copy rows between the same locations of tiled buffers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from .gather_tiled_rows import gather_tiled_rows
from .locations import check_locations, check_pairs
from .row_tiles import RowTiles, check_tiled
from .store_tiled_rows import store_tiled_rows
from .triton_devices import served_by_triton

__all__ = ["move_tiled_row_sets"]


def move_tiled_row_sets(
    buffers: Sequence[Tensor], tgt_loc: Tensor, src_loc: Tensor, tiles: RowTiles
) -> None:
    """In each buffer the row at `src_loc[i]` to `tgt_loc[i]`, all sources read before a write.

    As `move_row_sets` otherwise.

    :raises ValueError: for another number of sources than of targets, and a buffer that is not
        dense, whole pages; nothing is moved.
    :raises IndexError: on the CPU, for a location past the last row; nothing is moved.
    """
    check_pairs(tgt_loc, src_loc)
    for buffer in buffers:
        check_tiled("move_tiled_row_sets", buffer, tiles)
        for loc in (tgt_loc, src_loc):
            check_locations(loc, tiles.slots_of(buffer))
    if not served_by_triton(tgt_loc):
        for buffer in buffers:
            rows = gather_tiled_rows(buffer, src_loc, tiles)
            store_tiled_rows(buffer, tgt_loc, rows, tiles)
        return
    from .triton.launch import run
    from .triton.move_row_sets import plan_move_tiled_row_sets

    locations = tgt_loc.contiguous(), src_loc.contiguous()
    for launch in plan_move_tiled_row_sets(buffers, *locations, tiles):
        run(launch)
