"""Copy rows between locations of the same tiled buffer."""

from __future__ import annotations

from torch import Tensor

from .gather_tiled_rows import gather_tiled_rows
from .locations import check_pairs
from .row_tiles import RowTiles
from .store_tiled_rows import store_tiled_rows

__all__ = ["move_tiled_rows"]


def move_tiled_rows(buffer: Tensor, tgt_loc: Tensor, src_loc: Tensor, tiles: RowTiles) -> None:
    """The row at `src_loc[i]` to `tgt_loc[i]`, all sources read before any target is written.

    As `move_rows` otherwise.
    """
    check_pairs(tgt_loc, src_loc)
    store_tiled_rows(buffer, tgt_loc, gather_tiled_rows(buffer, src_loc, tiles), tiles)
