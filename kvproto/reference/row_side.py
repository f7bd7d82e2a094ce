"""The key or the value rows of all layers of a leaf: buffers, and where rows are in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.kernels import to_stored
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import BufferRegion

from .given_rows import given_rows
from .layer_buffers import zeros_by_layer
from .mha_layout import row_region
from .row_layouts import RowGeometry, RowLayout, RowLayoutName
from .row_stores import RowStore, SlotRows, TiledRows

__all__ = ["RowSide", "as_stored", "zeros_for"]


@dataclass(frozen=True, slots=True)
class RowSide:
    """`stores[i]` is the buffer of the leaf's i-th layer, with the way to its rows."""

    rows: RowGeometry
    layout: RowLayout
    stores: tuple[RowStore, ...]

    @classmethod
    def over(cls, buffers: Sequence[Tensor], name: RowLayoutName, rows: RowGeometry) -> RowSide:
        """The side that these buffers hold, of the shape that `zeros_for` gives them."""
        layout = RowLayout.of(name, rows)
        return cls(rows, layout, tuple(_store(buffer, layout, rows) for buffer in buffers))

    def region(self, dtype: torch.dtype, layer_ids: tuple[int, ...]) -> BufferRegion:
        """Where the rows of all layers are."""
        buffers = [store.buffer for store in self.stores]
        return row_region(self.rows.kind, buffers, self.layout, dtype, layer_ids)


def zeros_for(
    name: RowLayoutName,
    rows: RowGeometry,
    layer_num: int,
    dtype: torch.dtype,
    device: torch.device,
) -> list[Tensor]:
    """Zeroed buffers, one a layer, in the layout's shape.

    Those of `paged_nhd` are views of one allocation: who uses that layout hands all layers of a
    side to its transfer engine as one run of bytes.
    """
    shape = RowLayout.of(name, rows).shape
    if name == "paged_nhd":
        return list(torch.zeros((layer_num, *shape), dtype=dtype, device=device).unbind(0))
    return zeros_by_layer(layer_num, shape, dtype, device)


def as_stored(
    given: Tensor, shape: tuple[int, int, int], dtype: torch.dtype, scale: Scale, name: str
) -> Tensor:
    """Rows as callers give them, `[n, heads, width]` or with heads and width joined, as stored.

    :raises ValueError: naming the argument, for another shape.
    """
    return to_stored(given_rows(given, *shape, name), dtype, scale)


def _store(buffer: Tensor, layout: RowLayout, rows: RowGeometry) -> RowStore:
    if layout.is_dense_by_slot:
        return SlotRows(buffer.view(-1, rows.heads, rows.width))
    return TiledRows(buffer, layout.tiles)
