"""Read a pool's bytes without asking the pool to read them.

A law never checks a write through the pool's own read door. Where the pool declares its
regions, the oracle goes to the address of each element; where it does not, it falls back to
the storage behind the read door's tensor and says so, since a wrong door then goes unseen.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, DeclaresRegions, KVPool

__all__ = ["Oracle", "OracleSource", "oracle_for", "peek", "poke"]

OracleSource = Literal["declared regions", "read doors"]
Side = Literal["key", "value"]


def peek(address: int, nbytes: int) -> bytes:
    """The bytes at an address of this process."""
    return ctypes.string_at(address, nbytes)


def poke(address: int, data: bytes) -> None:
    """Overwrite the bytes at an address of this process."""
    ctypes.memmove(address, data, len(data))


@dataclass(frozen=True, slots=True)
class Oracle:
    """Reads rows of a pool on the CPU; `source` says how independently."""

    pool: KVPool
    regions: tuple[BufferRegion, ...] | None

    @property
    def source(self) -> OracleSource:
        """Where the bytes are read from."""
        return "read doors" if self.regions is None else "declared regions"

    def rows(self, side: Side, layer_id: int) -> Tensor:
        """A copy of all rows of a layer: `[slots, heads, width]`, in the stored meaning.

        The reserved page comes first. On latent pools the value is the key's prefix and has no
        region of its own.
        """
        region = self._region(side, layer_id)
        if region is None:
            return self._through_door(side, layer_id)
        return _gather(region, layer_id)

    def _region(self, side: Side, layer_id: int) -> BufferRegion | None:
        names = ("key", "latent") if side == "key" else ("value",)
        for region in self.regions or ():
            if layer_id in region.layer_ids and region.fields[0].name in names:
                return region
        return None

    def _through_door(self, side: Side, layer_id: int) -> Tensor:
        read = self.pool.get_key_buffer if side == "key" else self.pool.get_value_buffer
        buffer = read(layer_id)
        return buffer.detach().clone().reshape(-1, *buffer.shape[-2:])


def _gather(region: BufferRegion, layer_id: int) -> Tensor:
    field = region.fields[0]
    offsets = torch.tensor(field.offset)
    for axis in field.axes:
        along = torch.tensor([axis.offset(i) for i in range(axis.size)])
        offsets = offsets.unsqueeze(-1) + along
    index = (offsets.unsqueeze(-1) + torch.arange(field.element_bytes)).flatten()
    pages = [
        torch.frombuffer(bytearray(peek(start, region.bytes_per_page)), dtype=torch.uint8)[index]
        for page in range(region.page_count)
        for start in [region.page_address(layer_id, page)]
    ]
    dtype: torch.dtype = getattr(torch, field.element)
    rows = torch.cat(pages).view(dtype).reshape(-1, *field.shape[1:])
    return rows if rows.dim() == 3 else rows.unsqueeze(1)


def oracle_for(pool: KVPool) -> Oracle:
    """The most independent oracle the pool allows."""
    return Oracle(pool, pool.buffer_regions() if isinstance(pool, DeclaresRegions) else None)
