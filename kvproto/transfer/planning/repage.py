"""Pages of a pool counted in smaller ones, where a page is a row of its tokens' rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kvproto.protocols import Axis, BufferRegion, Field, Tile

from ..manifests.manifest import ManifestRegion, PoolPart
from ..manifests.refusal import Refusal

__all__ = ["in_pages_of", "page_size_refusals"]


def page_size_refusals(local: PoolPart, remote: PoolPart) -> Iterator[Refusal]:
    """Why the longer pages of one pool cannot be counted in the shorter ones of the other."""
    sizes = local.page_size, remote.page_size
    if max(sizes) % min(sizes):
        yield Refusal(
            field="page_size",
            where=local.name,
            local=str(local.page_size),
            remote=str(remote.page_size),
            advice="one has to be a multiple of the other",
        )
        return
    for part, other in ((local, remote), (remote, local)):
        for each in part.regions if part.page_size > other.page_size else ():
            if _has_pages(each) and not _is_cut(each.region, part.page_size // other.page_size):
                yield _not_rows(local, remote, each, part)


def _not_rows(local: PoolPart, remote: PoolPart, each: ManifestRegion, longer: PoolPart) -> Refusal:
    layout = "layout of its own" if longer.traits is None else f"layout {longer.traits.layout}"
    return Refusal(
        field="page_size",
        where=f"{local.name} {each.space} {each.name}",
        local=str(local.page_size),
        remote=str(remote.page_size),
        advice=f"the longer pages ({layout}) are no run of the shorter: tokens' rows lie apart",
    )


def in_pages_of(part: PoolPart, page_size: int) -> PoolPart:
    """The pool with its pages cut into pages of `page_size` tokens: more of them, fewer bytes.

    The reserved page becomes several. Regions by state slot and tails stay as they are.
    """
    times = part.page_size // page_size
    if times == 1:
        return part
    regions = tuple(_cut(each, times) if _has_pages(each) else each for each in part.regions)
    return replace(part, page_size=page_size, regions=regions)


def _has_pages(each: ManifestRegion) -> bool:
    """Whether a page of the region is token pages: of the pool, of its window, or of a ring."""
    return each.space in ("full", "window") or (
        each.space == "request" and not each.region.by_request
    )


def _is_cut(region: BufferRegion, times: int) -> bool:
    """Is a page `times` equal runs of bytes, one after another, up to the next page?"""
    row, beyond = divmod(region.bytes_per_page, region.page_size)
    dense = not beyond and region.page_stride == region.bytes_per_page
    return (
        dense
        and region.page_size % times == 0
        and all(_is_row_by_row(field, row) for field in region.fields)
    )


def _is_row_by_row(field: Field, row: int) -> bool:
    """Are the elements of each token `row` bytes after those of the token before?

    They are within one row then: no field ends after its page.
    """
    tiles = [tile for tile in field.axes[0].tiles if tile.extent > 1]
    return [tile.stride for tile in tiles] == [row]


def _cut(each: ManifestRegion, times: int) -> ManifestRegion:
    whole = each.region
    size, row = whole.page_size // times, whole.bytes_per_page // whole.page_size
    fields = tuple(
        replace(f, axes=(Axis("token", (Tile(size, row),)), *f.axes[1:])) for f in whole.fields
    )
    region = replace(
        whole,
        page_count=whole.page_count * times,
        page_size=size,
        bytes_per_page=whole.bytes_per_page // times,
        page_stride=whole.page_stride // times,
        fields=fields,
    )
    items = each.pages_per_item * (times if each.space == "request" else 1)
    return replace(each, region=region, pages_per_item=items)
