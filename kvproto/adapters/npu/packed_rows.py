"""Packed latent rows: fp8 latents, bf16 rope and float32 scales in one plane of bytes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.kernels import (
    LATENT_BLOCK,
    pack_latent_rows,
    packed_latent_width,
    unpack_latent_rows,
)
from kvproto.protocols import Axis, BufferRegion, Field, Tile, row_major
from kvproto.protocols.layout import AxisName, ElementType, FieldName
from kvproto.reference.row_stores import TiledRows

from .operators import store_rows
from .planes import Plane, PlaneLayer, PlaneShape

__all__ = ["PackedRows"]

_BF16 = torch.bfloat16.itemsize
_FLOAT = torch.float32.itemsize


@dataclass(frozen=True, slots=True)
class PackedRows:
    """A row is its e4m3fn latents, then rope in bf16, then a float32 scale per 128 latents.

    656 bytes for 512 and 64: the scales come last, and on CUDA before the rope. The plane of values
    has no width.
    """

    rank: int
    rope: int
    latent: Plane
    values: Plane
    latents: list[PlaneLayer]

    @classmethod
    def of_zeros(cls, shape: PlaneShape, rank: int, rope: int, device: torch.device) -> PackedRows:
        """A plane of the pages and layers of `shape`, as wide as a packed row."""
        pages = shape.layers, shape.pages, shape.page_size, 1
        whole, nothing = PlaneShape(*pages, packed_latent_width(rank, rope)), PlaneShape(*pages, 0)
        latent, values = (
            Plane.of_zeros(each, torch.float8_e4m3fn, torch.uint8, device)
            for each in (whole, nothing)
        )
        return cls(rank, rope, latent, values, latent.by_layer())

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return self.latent.shape.width

    @property
    def read_dtype(self) -> torch.dtype:
        """What parts are read in where no dtype is asked for."""
        return torch.bfloat16

    @property
    def planes(self) -> list[Plane]:
        """The one with bytes."""
        return [self.latent]

    @property
    def shown(self) -> tuple[Plane, Plane]:
        """What the key and the value door show."""
        return self.latent, self.values

    def stores(self) -> list[TiledRows]:
        """The way to the rows of all layers."""
        return self.latent.all_layers()

    def store(self, local: int, loc: Tensor, latent: Tensor, rope: Tensor) -> None:
        """Quantise parts `[n, 1, width]` and put them at locations; 0 and below are dropped."""
        store_rows(loc, self.latents[local], self._swapped(pack_latent_rows(latent, rope)))

    def load(self, local: int, loc: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The parts at locations, dequantised, in `dtype`; fresh."""
        rows = self.latents[local].store.gather(loc)
        return unpack_latent_rows(self._restored(rows), self.rank, dtype)

    def _swapped(self, rows: Tensor) -> Tensor:
        """Latents, scales, rope as latents, rope, scales."""
        return self._turned(rows, _FLOAT * (self.rank // LATENT_BLOCK))

    def _restored(self, rows: Tensor) -> Tensor:
        """The other way."""
        return self._turned(rows, _BF16 * self.rope)

    def _turned(self, rows: Tensor, first: int) -> Tensor:
        """The two parts behind the latents, of which the first has so many bytes, exchanged."""
        cut = self.rank + first
        return torch.cat((rows[..., : self.rank], rows[..., cut:], rows[..., self.rank : cut]), -1)

    def regions(self, layer_ids: tuple[int, ...]) -> tuple[BufferRegion, ...]:
        """One, of the rows of all layers."""
        blocks, scales_at = self.rank // LATENT_BLOCK, self.rank + _BF16 * self.rope
        latent = self._field("latent", "float8_e4m3fn", ("dim", self.rank), 0)
        scale = self._field("scale", "float32", ("group", blocks), scales_at)
        if not self.rope:
            return (self.latent.region_of((latent, scale), layer_ids),)
        rope = self._field("rope", "bfloat16", ("dim", self.rope), self.rank)
        return (self.latent.region_of((latent, rope, scale), layer_ids),)

    def _field(
        self, name: FieldName, element: ElementType, along: tuple[AxisName, int], at: int
    ) -> Field:
        token = Axis("token", (Tile(self.latent.shape.page_size, self.width),))
        return Field(name, element, (token, *row_major(element, along)), offset=at)
