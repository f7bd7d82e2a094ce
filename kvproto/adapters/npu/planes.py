"""Planes: rows of one kind, of all layers, in one run of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from kvproto.kernels import RowTiles, Tiles
from kvproto.protocols import Axis, BufferRegion, Field, Tile
from kvproto.protocols.layout import AxisName, FieldName
from kvproto.reference.elements import ELEMENT_OF
from kvproto.reference.row_stores import RowStore, SlotRows, TiledRows

from .facts import NZ_BYTES
from .memory import registered_by, zeros

__all__ = ["Order", "Plane", "PlaneLayer", "PlaneShape", "misfit"]

Order: TypeAlias = Literal["nd", "nz"]
"""`nd`: the rows of a page one after the other. `nz`: blocks of 32 bytes of a row apart, those of a
page's tokens together."""


@dataclass(frozen=True, slots=True)
class PlaneShape:
    """What a plane holds: `pages` of `page_size` tokens in each layer, the reserved one included.

    A token has `heads` rows of `width` elements. In `nz` order a page of `W = heads * width`
    elements is `[W // c0, page, c0]`, an ND tensor that operators read in that shape.
    """

    layers: int
    pages: int
    page_size: int
    heads: int
    width: int
    order: Order = "nd"

    def layer(self, itemsize: int) -> tuple[int, ...]:
        """The shape of a layer: `[pages, page, heads, width]`, or `[pages, W // c0, page, c0]`."""
        if self.order == "nd":
            return self.pages, self.page_size, self.heads, self.width
        c0 = NZ_BYTES // itemsize
        return self.pages, self.heads * self.width // c0, self.page_size, c0

    def tiles(self, itemsize: int) -> RowTiles:
        """Where a token's row is in a layer, in elements."""
        row, page = self.heads * self.width, self.page_size
        if self.order == "nd":
            token: Tiles = ((page, row),)
            return RowTiles(page * row, token, ((self.heads, self.width), (self.width, 1)))
        c0 = NZ_BYTES // itemsize
        return RowTiles(page * row, ((page, c0),), ((row // c0, page * c0), (c0, 1)))


def _through_layers(shape: PlaneShape, itemsize: int) -> RowTiles:
    """Where a token's rows of all layers are in the plane, as one row of theirs, in order."""
    one = shape.tiles(itemsize)
    layers = shape.layers, shape.pages * one.page_stride
    return RowTiles(one.page_stride, one.token, (layers, *one.row))


def misfit(order: Order, widths: Sequence[int], itemsize: int) -> str:
    """Why rows of these widths cannot lie in that order; "" where they can."""
    c0 = NZ_BYTES // itemsize
    wrong = [width for width in widths if order == "nz" and width % c0]
    if not wrong:
        return ""
    return (
        f"NZ order keeps {c0} elements of {itemsize} bytes together: rows of {wrong} are not such"
    )


class PlaneLayer(NamedTuple):
    """A layer of a plane: the way to its rows, and the tensor as operators read it."""

    store: RowStore
    cache: Tensor
    order: Order

    @property
    def slots(self) -> int:
        """How many token slots the layer has, those of the reserved page included."""
        return self.cache.shape[0] * self.cache.shape[1 if self.order == "nd" else 2]


@dataclass(frozen=True, slots=True)
class Plane:
    """`tensor` is `[layers, *shape of a layer]` in the store dtype; `dtype` is what it means."""

    tensor: Tensor
    dtype: torch.dtype
    shape: PlaneShape

    @classmethod
    def of_zeros(
        cls, shape: PlaneShape, dtype: torch.dtype, stored: torch.dtype, device: torch.device
    ) -> Plane:
        """One allocation for all layers, see `memory.zeros`."""
        size = (shape.layers, *shape.layer(dtype.itemsize))
        return cls(zeros(size, stored, device), dtype, shape)

    def layers(self) -> list[Tensor]:
        """A view of each layer, so that a captured graph does not hold the whole."""
        return list(self.tensor.unbind(0))

    def slots(self) -> list[Tensor]:
        """A view of each layer of `nd` rows: `[pages * page, heads, width]`."""
        rows = self.shape.pages * self.shape.page_size, self.shape.heads, self.shape.width
        return [layer.view(rows) for layer in self.layers()]

    def by_page(self) -> Tensor:
        """A view `[layers, pages, page_size, heads, width]`; of `nz` rows it is where pages are."""
        shape = self.shape
        return self.tensor.view(
            shape.layers, shape.pages, shape.page_size, shape.heads, shape.width
        )

    def by_layer(self) -> list[PlaneLayer]:
        """The layers, with the way to their rows."""
        if self.shape.order == "nd":
            stores: list[RowStore] = [SlotRows(rows) for rows in self.slots()]
        else:
            tiles = self.shape.tiles(self.dtype.itemsize)
            stores = [TiledRows(layer, tiles) for layer in self.layers()]
        order, caches = self.shape.order, self.layers()
        return [PlaneLayer(*each, order) for each in zip(stores, caches, strict=True)]

    def all_layers(self) -> list[TiledRows]:
        """The way to the rows of a token in all layers at once; none without layers.

        It is one operation for a plane, however many layers it has. That locations are in range is
        the caller's to check.
        """
        if not self.shape.layers:
            return []
        return [TiledRows(self.tensor, _through_layers(self.shape, self.dtype.itemsize))]

    def region(self, name: FieldName, layer_ids: tuple[int, ...]) -> BufferRegion:
        """Where the rows of all layers are; `layer_ids` are theirs, in order.

        Rows of a head, and those of one head called keys or values, have an axis of heads.
        """
        field = Field(name, ELEMENT_OF[self.dtype], self._axes(name))
        return self.region_of((field,), layer_ids)

    def region_of(self, fields: tuple[Field, ...], layer_ids: tuple[int, ...]) -> BufferRegion:
        """The same of rows of several parts."""
        return BufferRegion(
            layer_ids=layer_ids,
            bases=tuple(layer.data_ptr() for layer in self.layers()),
            page_count=self.shape.pages,
            page_size=self.shape.page_size,
            bytes_per_page=self.tensor[0, 0].nbytes,
            fields=fields,
            registration_alignment=registered_by(self.tensor.device),
        )

    def _axes(self, name: FieldName) -> tuple[Axis, ...]:
        tiles = self.shape.tiles(self.dtype.itemsize)
        token = self._axis("token", tiles.token)
        if name in ("key", "value", "index_value"):
            head, dim = self._axis("head", tiles.row[:1]), self._axis("dim", tiles.row[1:])
            return token, head, dim
        return token, self._axis("dim", tiles.row)

    def _axis(self, name: AxisName, tiles: Tiles) -> Axis:
        size = self.dtype.itemsize
        levels = [level for level in tiles if level[0] > 1] or tiles[-1:]
        return Axis(name, tuple(Tile(extent, stride * size) for extent, stride in levels))
