"""Read rows at locations of a tiled buffer."""

from __future__ import annotations

from torch import Tensor

from .locations import check_locations
from .row_tiles import RowTiles, check_tiled
from .triton_devices import served_by_triton

__all__ = ["gather_tiled_rows"]


def gather_tiled_rows(source: Tensor, loc: Tensor, tiles: RowTiles) -> Tensor:
    """`[n, elements of a row]`, fresh and dense, in the logical order of `tiles.row`.

    `source` is dense, all pages of a layer. A location of 0 or below reads the reserved slot,
    which is zero; `loc` is `[n]`, int32 or int64, in range. A kernel gives zeros for those and for
    locations past the end, and reads nothing for them.

    :raises ValueError: for a source that is not dense, whole pages.
    :raises IndexError: on the CPU, for a location past the last row.
    """
    check_tiled("gather_tiled_rows", source, tiles)
    check_locations(loc, tiles.slots_of(source))
    if served_by_triton(source):
        from .triton.gather_tiled_rows import plan_gather_tiled_rows
        from .triton.launch import run

        out = source.new_empty(loc.shape[0], tiles.row_elements)
        run(plan_gather_tiled_rows(source, loc, tiles, out))
        return out
    units = source.view(-1, tiles.unit)
    return units.index_select(0, tiles.units(loc.clamp(min=0))).view(-1, tiles.row_elements)
