"""Index keys in a plane with a slot for each layer that has some, and their scales in another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.kernels import FP8_DTYPES, to_stored
from kvproto.protocols import BufferRegion, buf_infos
from kvproto.reference.row_stores import TiledRows

from .operators import store_rows
from .planes import Plane, PlaneLayer, PlaneShape

__all__ = ["IndexPlanes"]


@dataclass(frozen=True, slots=True)
class IndexPlanes:
    """`layer_ids[i]` is the global id of the layer whose keys are in slot `i` of the planes."""

    layer_ids: tuple[int, ...]
    keys: Plane
    scales: Plane | None
    key_layers: list[PlaneLayer]
    scale_layers: list[PlaneLayer]

    @classmethod
    def of_zeros(
        cls,
        layer_ids: tuple[int, ...],
        shapes: tuple[PlaneShape, PlaneShape | None],
        dtype: torch.dtype,
        device: torch.device,
    ) -> IndexPlanes:
        """Planes of the shapes of keys and of scales, which plain keys have none of."""
        stored = torch.uint8 if dtype in FP8_DTYPES else dtype
        of_keys, of_scales = shapes
        keys = Plane.of_zeros(of_keys, dtype, stored, device)
        if of_scales is None:
            return cls(layer_ids, keys, None, keys.by_layer(), [])
        scales = Plane.of_zeros(of_scales, torch.float32, torch.float32, device)
        return cls(layer_ids, keys, scales, keys.by_layer(), scales.by_layer())

    @property
    def planes(self) -> list[Plane]:
        """Keys, then scales where there are some."""
        return [self.keys] if self.scales is None else [self.keys, self.scales]

    def stores(self) -> list[TiledRows]:
        """The way to the rows of all layers of each of those."""
        return [store for plane in self.planes for store in plane.all_layers()]

    def slot(self, layer_id: int) -> int:
        """Where a layer's keys are in the planes.

        :raises ValueError: for a layer without index keys.
        """
        if layer_id not in self.layer_ids:
            raise ValueError(
                f"layer_id={layer_id} has no index keys here, the layers {list(self.layer_ids)} "
                "have some"
            )
        return self.layer_ids.index(layer_id)

    def store_keys(self, layer_id: int, loc: Tensor, given: Tensor) -> None:
        """Put keys at locations, quantised ones as they are.

        :raises ValueError: for keys of another number or width, and those still to be quantised.
        """
        slot, dtype = self.slot(layer_id), self.keys.dtype
        rows = given.view(dtype) if given.dtype == torch.uint8 and dtype in FP8_DTYPES else given
        if not rows.is_floating_point():
            raise ValueError(
                f"index_k is {rows.dtype}: keys are stored here as {dtype}, and bytes do not say "
                "which values they are; nothing was written"
            )
        if dtype in FP8_DTYPES and rows.dtype != dtype:
            raise ValueError(
                f"index_k is {rows.dtype}: keys with a scale come quantised, as {dtype}; nothing "
                "was written"
            )
        shaped = _column(rows, loc.shape[0], self.keys.shape.width, "index_k")
        stored = shaped.contiguous().view(torch.uint8) if dtype in FP8_DTYPES else shaped
        store_rows(loc, self.key_layers[slot], to_stored(stored, self.keys.tensor.dtype))

    def store_scales(self, layer_id: int, loc: Tensor, given: Tensor) -> None:
        """Put a scale at each location.

        :raises ValueError: for other than `[n]`, or with axes of 1 behind.
        """
        slot, n = self.slot(layer_id), loc.shape[0]
        if given.shape[:1] != (n,) or given.shape[1:].numel() != 1:
            raise ValueError(
                f"scale has shape {tuple(given.shape)}, must be ({n},) for {n} "
                "locations, or with axes of 1 behind; nothing was written"
            )
        store_rows(loc, self.scale_layers[slot], given.reshape(n, 1, 1).to(torch.float32))

    def regions(self) -> tuple[BufferRegion, ...]:
        """Keys, then scales; none where no layer has keys."""
        if not self.layer_ids:
            return ()
        keys = self.keys.region("index_key", self.layer_ids)
        if self.scales is None:
            return (keys,)
        return keys, self.scales.region("index_scale", self.layer_ids)

    def buf_infos(self, stage: range) -> tuple[list[int], list[int], list[int]]:
        """Keys of every layer of the stage, then scales; layers without keys keep a place of 0."""
        columns: tuple[list[int], list[int], list[int]] = ([], [], [])
        regions = self.regions()
        for number in range(len(self.planes)):
            told: dict[int, tuple[int, ...]] = {}
            for region in regions[number : number + 1]:
                told = dict(
                    zip(region.layer_ids, zip(*buf_infos((region,)), strict=True), strict=True)
                )
            for layer_id in stage:
                for column, entry in zip(columns, told.get(layer_id, (0, 0, 0)), strict=True):
                    column.append(entry)
        return columns


def _column(given: Tensor, n: int, width: int, name: str) -> Tensor:
    """`[n, 1, width]` of `[n, 1, width]` or `[n, width]`."""
    if given.shape == (n, 1, width):
        return given
    if given.shape != (n, width):
        raise ValueError(
            f"{name} has shape {tuple(given.shape)}, must be ({n}, 1, {width}) for {n} locations; "
            "nothing was written"
        )
    return given.unsqueeze(1)
