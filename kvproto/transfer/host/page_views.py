"""The pages of a region as tensors: where the device has them, and where the host tier does."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import torch
from torch import Tensor

from kvproto.kernels import by_layer
from kvproto.protocols import BufferRegion, Field, HostRegion, Tile

from .page_ids import PageRuns

__all__ = ["PageViews", "device_bytes", "held_by_layer", "layer_views", "page_views"]


@dataclass(frozen=True, slots=True)
class PageViews:
    """The same bytes of every page at both ends: page first, the rest alike, the last axis dense.

    Elements are the widest integers that both ends are aligned for.
    """

    device: Tensor
    host: Tensor

    @staticmethod
    def of(device: Tensor, host: Tensor) -> PageViews:
        """Over uint8 views."""
        dtype = _widest(device, host)
        return PageViews(device.view(dtype), host.view(dtype))

    def to_host(self, runs: PageRuns) -> None:
        """Pages of the device to those of the tier, for each run, on the current stream."""
        for device, host, n in runs:
            there = self.device[device : device + n]
            self.host[host : host + n].copy_(there, non_blocking=True)

    def to_device(self, runs: PageRuns) -> None:
        """The other way."""
        for device, host, n in runs:
            held = self.host[host : host + n]
            self.device[device : device + n].copy_(held, non_blocking=True)

    @property
    def geometry(self) -> tuple[object, ...]:
        """Of what elements, how many, and how far apart, at either end."""
        ends = self.device, self.host
        return self.device.dtype, *(fact for end in ends for fact in (end.shape, end.stride()))

    @property
    def page_bytes(self) -> int:
        """Bytes of a page that these views are of."""
        return self.device.shape[1:].numel() * self.device.itemsize

    @property
    def piece_bytes(self) -> int:
        """Bytes of a page that lie together at both ends."""
        dense = 1
        axes = zip(self.device.shape, self.device.stride(), self.host.stride(), strict=True)
        for extent, *strides in reversed([*axes][1:]):
            if extent > 1 and strides != [dense, dense]:
                break
            dense *= extent
        return dense * self.device.itemsize


def _rows_of(mirror: HostRegion) -> tuple[int, int]:
    """`(rows, bytes)`: how many runs of bytes a page is in each layer, and how long each is."""
    region = mirror.region
    if mirror.by_token:
        return region.page_size, region.bytes_per_page // region.page_size
    return 1, region.bytes_per_page


def page_views(mirror: HostRegion, buffers: list[Tensor], memory: Tensor) -> list[PageViews]:
    """Whole pages of each base of the region, `[pages, rows, bytes]` in bytes.

    `buffers` are the device's bytes from each base on, `memory` the tier's bytes of the region.
    """
    region, held = mirror.region, held_by_layer(mirror, len(buffers), memory)
    there = (region.page_count, *held.shape[2:]), (region.page_stride, held.shape[3], 1)
    return [
        PageViews.of(buffer.as_strided(*there), pages)
        for buffer, pages in zip(buffers, held, strict=True)
    ]


def held_by_layer(mirror: HostRegion, bases: int, memory: Tensor) -> Tensor:
    """The tier's pages of each base, uint8 `[bases, pages, rows, bytes]`."""
    rows, nbytes = _rows_of(mirror)
    count = mirror.page_count
    match mirror.layout:
        case "layer_first":
            shape = bases, count, rows, nbytes
        case "page_first":
            shape = count, rows, bases, nbytes
        case "page_first_direct":
            shape = count, bases, rows, nbytes
    return by_layer(memory.view(shape), mirror.layout)


def layer_views(
    mirror: HostRegion, layer_id: int, buffers: list[Tensor], memory: Tensor
) -> list[PageViews]:
    """What a global layer id has of each page: the page of its base, or its rows in an envelope."""
    region = mirror.region
    if not region.is_envelope:
        return [page_views(mirror, buffers, memory)[region.layer_ids.index(layer_id)]]
    strides = region.page_stride, region.bytes_per_page
    counts = region.page_count, mirror.page_count
    views: list[PageViews] = []
    for field in (region.in_layer(layer_id, f) for f in region.fields if f.name != "padding"):
        ends = [
            _field_view(whole, field, count, stride)
            for whole, count, stride in zip((buffers[0], memory), counts, strides, strict=True)
        ]
        views.append(PageViews.of(ends[0], ends[1]))
    return views


def _field_view(whole: Tensor, field: Field, pages: int, stride: int) -> Tensor:
    runs, dense = _runs_of(field)
    shape = (pages, *(tile.extent for tile in runs), dense)
    strides = (stride, *(tile.stride for tile in runs), 1)
    return whole.as_strided(shape, strides, whole.storage_offset() + field.offset)


def _runs_of(field: Field) -> tuple[list[Tile], int]:
    """How the runs of bytes of a page repeat, widest step first, and how long each is."""
    tiles = [tile for axis in field.axes for tile in axis.tiles if tile.extent > 1]
    tiles.sort(key=lambda tile: tile.stride, reverse=True)
    dense = field.element_bytes
    while tiles and tiles[-1].stride == dense:
        dense *= tiles.pop().extent
    return tiles, dense


def device_bytes(region: BufferRegion) -> int:
    """Bytes from a base to the end of its last page."""
    return (region.page_count - 1) * region.page_stride + region.bytes_per_page


def _widest(*views: Tensor) -> torch.dtype:
    unit = 8
    for view in views:
        places = view.data_ptr(), view.storage_offset(), *view.stride()[:-1]
        unit = gcd(unit, view.shape[-1], *places)
    return {8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[unit]
