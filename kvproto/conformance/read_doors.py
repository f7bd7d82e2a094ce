"""Rows read from the storage behind a pool's read doors: no better than the doors are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from kvproto.protocols import (
    DeclaresTraits,
    IndexerCapable,
    IndexKeyRows,
    KVPool,
    ScaledIndexKeyRows,
    supports,
)

from .door_layouts import DoorForms, no_form
from .stored_rows import Side, in_meaning

__all__ = ["DoorReader"]

_TILE = 16


@dataclass(frozen=True, slots=True)
class DoorReader:
    """The methods of `Oracle`, for a pool that is its only witness."""

    pool: KVPool
    door_form: DoorForms = no_form

    def rows(self, side: Side, layer_id: int) -> Tensor:
        """All rows of a layer, packed ones dequantised."""
        return in_meaning(self.pool, side, self._door(side, layer_id).detach().clone())

    def row(self, side: Side, layer_id: int, slot: int) -> Tensor:
        """One row of a layer."""
        form = self.door_form(side, layer_id)
        if form is None:
            row = self._door(side, layer_id)[slot]
        else:
            row = form.row(*self._read(side, layer_id), slot)
        return in_meaning(self.pool, side, row.detach().clone())

    def stored_bytes(self, side: Side, layer_id: int) -> Tensor:
        """The bytes of all rows of a layer."""
        door = self._door(side, layer_id)
        return door.detach().clone().contiguous().view(torch.uint8).flatten(1)

    def index(self, layer_id: int) -> tuple[Tensor, Tensor]:
        """Index keys and scales of a layer."""
        pool = self.pool
        if isinstance(pool, IndexKeyRows):
            return _index_rows(pool, layer_id)
        if not isinstance(pool, IndexerCapable):
            raise TypeError(f"{type(pool).__name__} has no index keys")
        pages = pool.get_index_k_with_scale_buffer(layer_id).detach().clone()
        key_bytes = pool.index_page_size * pool.index_head_dim
        keys = pages[:, :key_bytes].reshape(-1, pool.index_head_dim)
        if supports(pool, DeclaresTraits) and "preshuffled" in pool.pool_traits.index_scheme:
            keys = _in_rows(keys)
        return keys, pages[:, key_bytes:].contiguous().view(torch.float32).flatten()

    def index_at(self, layer_id: int, slot: int) -> tuple[Tensor, float]:
        """The key bytes and the scale of one slot."""
        keys, scales = self.index(layer_id)
        return keys[slot], float(scales[slot])

    def tails(self, layer_id: int) -> tuple[Tensor, Tensor]:
        """The rings of keys and scores of a layer."""
        pool: Any = self.pool
        keys, scores = pool.get_compress_tail_buffers(layer_id)
        return keys.detach().clone(), scores.detach().clone()

    def index_rows(self, name: Literal["index_key", "index_value"], layer_id: int) -> Tensor:
        """Index rows by head of a layer, in the door's own shape."""
        pool: Any = self.pool
        if name == "index_key":
            found = pool.get_index_k_buffer(layer_id)
        else:
            found = pool.get_index_kv_buffer(layer_id)[1]
        rows: Tensor = found.detach().clone()
        return rows

    def _door(self, side: Side, layer_id: int) -> Tensor:
        call, buffer = self._read(side, layer_id)
        form = self.door_form(side, layer_id)
        return form.by_slot(call, buffer) if form else buffer.reshape(-1, *buffer.shape[-2:])

    def _read(self, side: Side, layer_id: int) -> tuple[str, Tensor]:
        if side == "key":
            return f"get_key_buffer({layer_id})", self.pool.get_key_buffer(layer_id)
        return f"get_value_buffer({layer_id})", self.pool.get_value_buffer(layer_id)


def _in_rows(keys: Tensor) -> Tensor:
    """Keys of whole pages, tile after tile, as rows."""
    tiles = keys.view(-1, keys.shape[1] // _TILE, _TILE, _TILE)
    return tiles.transpose(1, 2).reshape(keys.shape)


def _index_rows(pool: IndexKeyRows, layer_id: int) -> tuple[Tensor, Tensor]:
    """Keys and scales by slot; zeros for the scales of keys that have none."""
    shown = pool.get_index_k_buffer(layer_id).detach().clone()
    keys = shown.reshape(-1, pool.index_head_dim).view(torch.uint8)
    if not isinstance(pool, ScaledIndexKeyRows):
        return keys, torch.zeros(keys.shape[0])
    return keys, pool.get_index_k_scale_buffer(layer_id).detach().clone().flatten()
