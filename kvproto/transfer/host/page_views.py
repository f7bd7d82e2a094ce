"""The pages of a region as tensors: where the device has them, and where the host tier does."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kvproto.kernels import by_layer
from kvproto.protocols import BufferRegion, Field, HostRegion, Tile

__all__ = ["Items", "PageViews", "device_bytes", "held_by_layer", "layer_views", "page_views"]


@dataclass(frozen=True, slots=True)
class Items:
    """Pages in host memory that are runs of bytes: item `i` is at `address + i * step`.

    `array` is `[pages]`, each page one element, which numpy copies by memcpy.
    """

    array: np.ndarray[Any, np.dtype[np.void]]
    address: int
    step: int
    nbytes: int

    @staticmethod
    def of(pages: Tensor) -> Items:
        """The pages of a view, which are dense each."""
        step, each = pages.stride(0), pages[0].numel()
        flat = pages.as_strided(((len(pages) - 1) * step + each,), (1,)).numpy()
        step, nbytes = step * pages.itemsize, each * pages.itemsize
        array = np.ndarray((len(pages),), f"V{nbytes}", flat, strides=(step,))
        return Items(array, pages.data_ptr(), step, nbytes)

    def at(self, page: int) -> int:
        """The address of a page."""
        return self.address + page * self.step

    @property
    def is_dense(self) -> bool:
        """Whether nothing is between pages."""
        return self.step == self.nbytes


@dataclass(frozen=True, slots=True)
class PageViews:
    """The same bytes of every page at both ends: page first, the rest alike, the last axis dense.

    Elements are the widest integers that both ends are aligned for. `items` are the same in host
    memory, device first, where a page is one run of bytes at either end; else None.
    """

    device: Tensor
    host: Tensor
    items: tuple[Items, Items] | None

    @staticmethod
    def of(device: Tensor, host: Tensor) -> PageViews:
        """Over uint8 views."""
        dtype = _widest(device, host)
        ends = device.view(dtype), host.view(dtype)
        whole = all(end.is_cpu and end[0].is_contiguous() for end in ends)
        return PageViews(*ends, (Items.of(ends[0]), Items.of(ends[1])) if whole else None)


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
