"""What a leaf of key and value rows declares of itself: traits and regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kvproto.kernels import Tiles
from kvproto.protocols import Axis, BufferRegion, Field, Layout, PoolTraits, Tile
from kvproto.protocols.layout import AxisName, FieldName

from .elements import ELEMENT_OF, FP8_VARIANT_OF, check_element
from .row_layouts import RowLayout

__all__ = ["mha_traits", "row_region"]


def mha_traits(dtype: torch.dtype, layout: Layout) -> PoolTraits:
    """The traits of plain or fp8 K and V rows.

    :raises ValueError: for an element type rows cannot be stored in.
    """
    check_element(dtype)
    plain, variant = PoolTraits(kind="mha", layout=layout), FP8_VARIANT_OF.get(dtype)
    if variant is None:
        return plain
    return replace(plain, quant_scheme="fp8_scaled", fp8_variant=variant)


def row_region(
    name: FieldName,
    buffers: Sequence[Tensor],
    layout: RowLayout,
    dtype: torch.dtype,
    layer_ids: tuple[int, ...],
) -> BufferRegion:
    """The region of per-layer buffers in that layout."""
    tiles = layout.tiles
    axes = (
        _axis("token", tiles.token, dtype),
        _axis("head", tiles.row[:1], dtype),
        _axis("dim", tiles.row[1:], dtype),
    )
    return BufferRegion(
        layer_ids=layer_ids,
        bases=tuple(buffer.data_ptr() for buffer in buffers),
        page_count=buffers[0].numel() // tiles.page_stride,
        page_size=tiles.page_size,
        bytes_per_page=tiles.page_stride * dtype.itemsize,
        fields=(Field(name, ELEMENT_OF[dtype], axes),),
    )


def _axis(name: AxisName, tiles: Tiles, dtype: torch.dtype) -> Axis:
    return Axis(name, tuple(Tile(extent, stride * dtype.itemsize) for extent, stride in tiles))
