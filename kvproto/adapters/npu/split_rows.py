"""Latent rows in two planes: the latent parts of all layers, and the rope parts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.kernels import FP8_DTYPES, to_fp8, to_stored
from kvproto.protocols import BufferRegion
from kvproto.reference.row_stores import TiledRows

from .operators import Rows, store_pair, store_rows
from .planes import Plane, PlaneLayer, PlaneShape

__all__ = ["SplitRows"]


@dataclass(frozen=True, slots=True)
class SplitRows:
    """Parts of a token at the same slot of two planes, in one element type and order.

    A model without rotated dimensions has a rope plane without a byte.
    """

    latent: Plane
    rope: Plane
    latents: list[PlaneLayer]
    ropes: list[PlaneLayer]

    @classmethod
    def of_zeros(
        cls, shapes: tuple[PlaneShape, PlaneShape], dtype: torch.dtype, device: torch.device
    ) -> SplitRows:
        """Planes of the shapes of latent and of rope; fp8 is stored as bytes."""
        stored = torch.uint8 if dtype in FP8_DTYPES else dtype
        latent, rope = (Plane.of_zeros(shape, dtype, stored, device) for shape in shapes)
        return cls(latent, rope, latent.by_layer(), rope.by_layer() if rope.shape.width else [])

    @property
    def width(self) -> int:
        """Elements of a row, both parts."""
        return self.latent.shape.width + self.rope.shape.width

    @property
    def read_dtype(self) -> torch.dtype:
        """What parts are read in where no dtype is asked for."""
        return self.latent.dtype

    @property
    def planes(self) -> list[Plane]:
        """Those with bytes, in the order of the regions."""
        return [self.latent, self.rope] if self.rope.shape.width else [self.latent]

    @property
    def shown(self) -> tuple[Plane, Plane]:
        """What the key and the value door show."""
        return self.latent, self.rope

    def stores(self) -> list[TiledRows]:
        """The way to the rows of all layers of each of those."""
        return [store for plane in self.planes for store in plane.all_layers()]

    def store(self, local: int, loc: Tensor, latent: Tensor, rope: Tensor) -> None:
        """Put parts `[n, 1, width]` of any float dtype at locations; 0 and below are dropped."""
        dtype = self.latent.dtype
        if self.rope.shape.width:
            parts = Rows(self.latents[local], latent), Rows(self.ropes[local], rope)
            store_pair(loc, *parts, dtype)
        else:
            store_rows(loc, self.latents[local], to_stored(latent, dtype))

    def load(self, local: int, loc: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The parts at locations in `dtype`, fresh; a cast to fp8 saturates."""
        latent = self._part(self.latent, self.latents[local], loc, dtype)
        if self.rope.shape.width:
            return latent, self._part(self.rope, self.ropes[local], loc, dtype)
        return latent, latent[..., :0].contiguous()

    def _part(self, plane: Plane, layer: PlaneLayer, loc: Tensor, dtype: torch.dtype) -> Tensor:
        rows = layer.store.gather(loc).view(plane.dtype).view(-1, 1, plane.shape.width)
        cast_to_fp8 = dtype in FP8_DTYPES and dtype != plane.dtype
        return to_fp8(rows, dtype) if cast_to_fp8 else rows.to(dtype)

    def regions(self, layer_ids: tuple[int, ...]) -> tuple[BufferRegion, ...]:
        """The latent parts of all layers, then the rope parts."""
        latent = self.latent.region("latent", layer_ids)
        if not self.rope.shape.width:
            return (latent,)
        return latent, self.rope.region("rope", layer_ids)
