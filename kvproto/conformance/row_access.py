"""A vendor's own way to the bytes of a token, for pools that do not declare their regions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import torch
from torch import Tensor

from kvproto.protocols import IndexerCapable, KVPool

from .stored_rows import Side, in_meaning

__all__ = ["AccessReader", "RowAccess", "RowPart"]

RowPart: TypeAlias = Literal["key", "value", "index_key", "index_scale"]
"""What of a token: its key or latent row, its value row, its index key, that key's scale."""


class RowAccess(Protocol):
    """Reads and writes what a pool stores for one token, without a door of the pool.

    `pool` is the leaf that the factory built, `layer_id` a global id it owns, `slot` a token slot,
    those of the reserved page included. Key and value rows are `[heads, width]` in the pool's
    `dtype`; a latent row is `[1, kv_lora_rank + qk_rope_head_dim]`, latent first. A packed row is
    uint8 `[1, kv_cache_dim]`: the latents, their float32 scales, the bfloat16 rope part, in that
    order wherever the pool keeps them. An index key is uint8 `[index_head_dim]`, its scale
    float32 `[]`.

    The `oracle` laws hold it to what they hold declared regions to.
    """

    def peek(self, pool: Any, part: RowPart, layer_id: int, slot: int, /) -> Tensor:
        """A copy on the CPU of what is stored."""
        ...

    def poke(self, pool: Any, part: RowPart, layer_id: int, slot: int, row: Tensor, /) -> None:
        """Store these elements, and change no other byte."""
        ...


@dataclass(frozen=True, slots=True)
class AccessReader:
    """The methods of `Oracle`, by `peek`."""

    pool: KVPool
    access: RowAccess

    def rows(self, side: Side, layer_id: int) -> Tensor:
        """All rows of a layer, packed ones dequantised."""
        return in_meaning(self.pool, side, self._every(side, layer_id))

    def row(self, side: Side, layer_id: int, slot: int) -> Tensor:
        """One row of a layer."""
        row = self.access.peek(self.pool, side, layer_id, slot).clone()
        return in_meaning(self.pool, side, row)

    def stored_bytes(self, side: Side, layer_id: int) -> Tensor:
        """The bytes of all rows of a layer."""
        return self._every(side, layer_id).view(torch.uint8).flatten(1)

    def index(self, layer_id: int) -> tuple[Tensor, Tensor]:
        """Index keys and scales of a layer."""
        return self._every("index_key", layer_id), self._every("index_scale", layer_id)

    def index_at(self, layer_id: int, slot: int) -> tuple[Tensor, float]:
        """The key bytes and the scale of one slot."""
        peek = self.access.peek
        return (
            peek(self.pool, "index_key", layer_id, slot),
            float(peek(self.pool, "index_scale", layer_id, slot)),
        )

    def _every(self, part: RowPart, layer_id: int) -> Tensor:
        slots = range(self._slots(part))
        return torch.stack([self.access.peek(self.pool, part, layer_id, slot) for slot in slots])

    def _slots(self, part: RowPart) -> int:
        slots = self.pool.size + self.pool.page_size
        shared = part in ("index_key", "index_scale")
        if shared and isinstance(self.pool, IndexerCapable):
            return slots // self.pool.index_kpool
        return slots
