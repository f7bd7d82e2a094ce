"""Regions of which one number names several pages, as regions of larger pages."""

from __future__ import annotations

from dataclasses import replace

from kvproto.protocols import Axis, BufferRegion, Field, Tile

__all__ = ["whole_items"]


def whole_items(region: BufferRegion, pages_per_item: int) -> BufferRegion:
    """The same bytes, in pages of `pages_per_item` pages each.

    Index pages of several ranks go by the number of one page of rows.

    :raises ValueError: for pages that do not make up whole items, or do not lie together.
    """
    if pages_per_item == 1:
        return region
    if region.page_stride != region.bytes_per_page or region.page_count % pages_per_item:
        raise ValueError(
            f"{region.page_count} pages, {region.page_stride} bytes apart: items of "
            f"{pages_per_item} pages are whole, and one run of bytes"
        )
    return replace(
        region,
        page_count=region.page_count // pages_per_item,
        page_size=region.page_size * pages_per_item,
        bytes_per_page=region.bytes_per_page * pages_per_item,
        page_stride=0,
        fields=tuple(_in_item(field, region, pages_per_item) for field in region.fields),
    )


def _in_item(field: Field, region: BufferRegion, pages: int) -> Field:
    token, *row = field.axes
    tiles = (Tile(pages, region.bytes_per_page), *token.tiles)
    return replace(field, axes=(Axis(token.name, tiles), *row))
