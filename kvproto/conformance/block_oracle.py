"""Read elements and block scales where a pool keeps them, and what they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, KVPool

from .block_codec import BlockCodec
from .oracle import Oracle, gather_field
from .stored_rows import Side, side_by_side

__all__ = ["BlockOracle"]

_ELEMENTS: dict[Side, tuple[str, ...]] = {"key": ("key", "latent"), "value": ("value",)}
_SCALES: dict[Side, tuple[str, ...]] = {"key": ("key_scale", "scale"), "value": ("value_scale",)}


@dataclass(frozen=True, slots=True)
class BlockOracle(Oracle):
    """An oracle whose rows are float32, decoded by the kit; `parts` are the bytes themselves.

    Where no region holds them, the public buffers that such pools have in common are read, and
    `fallback` is told: a `RowAccess` speaks of rows of one dtype.
    """

    codec: BlockCodec | None = None

    def parts(
        self, side: Side, layer_id: int, pages: Iterable[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Element bytes `[slots, heads, bytes]` and scale bytes `[slots, heads, blocks]`."""
        elements = self._region(_ELEMENTS[side], layer_id)
        scales = self._region(_SCALES[side], layer_id)
        if elements is None or scales is None:
            self.fallback.note()
            return _public(self.pool, side, layer_id)
        chosen = range(elements.page_count) if pages is None else list(pages)
        rows = side_by_side([_bytes(elements, f.name, layer_id, chosen) for f in elements.fields])
        found = _bytes(scales, scales.fields[0].name, layer_id, chosen)
        heads = 1 if elements.fields[0].name == "latent" else elements.fields[0].shape[1]
        return rows.view(rows.shape[0], heads, -1), found.view(rows.shape[0], heads, -1)

    def rows(self, side: Side, layer_id: int) -> Tensor:
        """A copy of all rows of a layer, `[slots, heads, width]` float32."""
        return self._codec.decode(*self.parts(side, layer_id)).float()

    def row(self, side: Side, layer_id: int, slot: int) -> Tensor:
        """One row of a layer, without touching the others where regions are declared."""
        region = self._region(_ELEMENTS[side], layer_id)
        if region is None:
            return self.rows(side, layer_id)[slot]
        page, token = divmod(slot, region.page_size)
        return self._codec.decode(*self.parts(side, layer_id, (page,)))[token].float()

    def stored_bytes(self, side: Side, layer_id: int) -> Tensor:
        """The bytes of all rows of a layer, then those of their scales: uint8 `[slots, bytes]`."""
        return side_by_side(self.parts(side, layer_id))

    @property
    def _codec(self) -> BlockCodec:
        assert self.codec is not None  # only its bench makes one, and gives it
        return self.codec


def _bytes(region: BufferRegion, name: str, layer_id: int, pages: Iterable[int]) -> Tensor:
    found = gather_field(region, region.field(name), layer_id, pages)
    return found.view(torch.uint8)


def _public(pool: KVPool, side: Side, layer_id: int) -> tuple[Tensor, Tensor]:
    """The buffers that engines' pools show: rows of bytes, and scales by token or interleaved."""
    known: Any = pool
    latent = hasattr(pool, "kv_buffer")
    names = (
        ("kv_buffer", "kv_scale_buffer")
        if latent
        else (f"{side[0]}_buffer", f"{side[0]}_scale_buffer")
    )
    rows, scales = (
        getattr(known, name)[layer_id - pool.start_layer].detach().clone().view(torch.uint8)
        for name in names
    )
    if scales.dim() == 5:
        scales = scales.permute(0, 3, 2, 1, 4)
    return rows, scales.reshape(rows.shape[0], rows.shape[1], -1)
