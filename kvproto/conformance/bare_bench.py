"""Leaves that lack a side on the bench: keys alone, or nothing at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from kvproto.protocols import KeyOnly, KVLeaf, KVPool, NoOpLeafRequest, supports

from .bench import Bench
from .kv_bench import KVBench
from .stored_rows import Side

__all__ = ["KEY_LAWS", "KeyOnlyBench", "NoOpBench"]

KEY_LAWS = frozenset(
    {
        *(f"leaf.{law}" for law in ("layers-owned", "layers-foreign", "write-read", "read-doors")),
        *(f"leaf.{law}" for law in ("slot-zero", "negative-loc", "out-of-range", "strided-input")),
        *(f"leaf.{law}" for law in ("empty-and-duplicates", "input-unmodified", "geometry")),
        *(f"leaf.{law}" for law in ("layer-transfer-wait", "wide-address")),
        *(f"fp8.{law}" for law in ("variant", "saturates")),
        *(f"move.{law}" for law in ("overlap", "slot-zero")),
        *(f"transfer.{law}" for law in ("item-len", "complete", "order")),
        *(f"host-tier.{law}" for law in ("geometry", "fields", "layouts")),
        *(f"sync-free.{law}" for law in ("write", "move")),
        *(f"memory-saver.{law}" for law in ("region", "paused", "resume")),
        *("host-copy.round-trip", "size.bytes", "oracle.rows", "traits.request"),
    }
)
"""Laws of leaves that look at rows through the bench alone, and so hold for keys without values."""


class KeyOnlyBench(KVBench):
    """Keys without values: `KEY_LAWS` bind them as they do a leaf, for its one side."""

    request: Any

    def offers(self, capabilities: Sequence[type], law_id: str) -> bool:
        """For those laws a pool of keys stands for the leaf that they are about."""
        rest = [c for c in capabilities if law_id not in KEY_LAWS or c not in (KVPool, KVLeaf)]
        return supports(self.pool, KeyOnly) and super().offers(rest, law_id)

    @property
    def read_doors(self) -> tuple[str, ...]:
        """The door of keys."""
        return ("get_key_buffer",)

    def door_pair(self, layer_id: int) -> Any:
        """The keys, for want of a door of both sides."""
        return (self.pool.get_key_buffer(layer_id),)

    def row_shape(self, side: Side, layer_id: int | None = None) -> tuple[int, int]:
        """Heads and width of a key row."""
        return self.request.head_num, self.request.head_dim

    def write(self, loc: Tensor, k: Tensor, v: Tensor, layer_id: int | None = None) -> None:
        """`set_k_buffer` on a layer, the first one by default."""
        pool: Any = self.pool
        pool.set_k_buffer(self.layer_ids[0] if layer_id is None else layer_id, loc, k)


class NoOpBench(Bench):
    """A pool that keeps nothing."""

    request: NoOpLeafRequest

    @property
    def layer_ids(self) -> range:
        """The global ids of the stage's layers."""
        return range(self.request.start_layer, self.request.end_layer)
