"""Zero the row of the reserved slot where rows lie in tiles."""

from __future__ import annotations

from torch import Tensor

from .row_tiles import RowTiles

__all__ = ["clear_tiled_row"]


def clear_tiled_row(buffer: Tensor, tiles: RowTiles) -> None:
    """`row 0 = 0` in a dense buffer whose rows lie as `tiles` says; one fill, on any device."""
    flat = buffer.view(-1)
    extents, strides = [extent for extent, _ in tiles.row], [stride for _, stride in tiles.row]
    flat.as_strided(extents, strides, flat.storage_offset()).zero_()
