"""Pages that a kernel can bring into another order: which, and as it wants them described."""

from __future__ import annotations

from kvproto.kernels import RowTiles
from kvproto.kernels.row_tiles import Tiles
from kvproto.protocols import Axis, BufferRegion

from ..manifests.manifest import ManifestRegion
from .pairing import Matched

__all__ = ["is_convertible", "layout_advice", "row_tiles"]


def is_convertible(pair: Matched) -> bool:
    """Are both pages whole rows of the same heads, without a gap, for `convert_pages`?"""
    return _shape(pair.local) == _shape(pair.remote) is not None and (
        pair.local.heads == pair.remote.heads
    )


def layout_advice(pair: Matched) -> str:
    """What to do about pages in another order."""
    if is_convertible(pair):
        return 'describe(..., conversion="staging") on both sides has the receiver convert them'
    if pair.local.heads != pair.remote.heads:
        return "only pages of the same heads are converted: give both ranks these, or one layout"
    return "no kernel converts such pages: build both pools in one layout"


def _shape(each: ManifestRegion) -> tuple[object, ...] | None:
    region = each.region
    field = region.fields[0]
    elements = 1
    for size in field.shape:
        elements *= size
    dense = elements * field.element_bytes == region.bytes_per_page == region.page_stride
    if not dense or len(region.fields) > 1 or each.pages_per_item > 1 or region.is_envelope:
        return None
    return field.element, tuple((axis.name, axis.size) for axis in field.axes)


def row_tiles(region: BufferRegion) -> RowTiles:
    """The tiles of a convertible region's pages, in elements."""
    token, *row = region.fields[0].axes
    size = region.fields[0].element_bytes
    tiles = tuple(tile for axis in row for tile in _tiles(axis, size))
    return RowTiles(region.page_stride // size, _tiles(token, size), tiles)


def _tiles(axis: Axis, size: int) -> Tiles:
    return tuple((tile.extent, tile.stride // size) for tile in axis.tiles)
