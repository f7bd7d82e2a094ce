"""A pool with read and write doors on the bench: rows to write, and an oracle to read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from kvproto.protocols import (
    DSALeafRequest,
    KVPool,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
)

from .bench import Bench
from .oracle import Oracle, oracle_for

__all__ = ["KVBench", "LayerStub", "Side", "WriteLoc"]

Side = Literal["key", "value"]


@dataclass(frozen=True, slots=True)
class LayerStub:
    """An attention layer as far as a pool may look: its global id and unit scales."""

    layer_id: int
    k_scale: None = None
    v_scale: None = None


@dataclass(frozen=True, slots=True)
class WriteLoc:
    """Write locations as attention backends bundle them."""

    loc: Tensor
    swa_loc: Tensor | None = None
    full_loc: Tensor | None = None
    physical: bool = True


class KVBench(Bench):
    """A pool of the doors of `KVPool`, and the oracle that reads its bytes.

    Values are small integers, exact in every dtype, so that comparisons are bit for bit.
    """

    request: LeafRequest

    def __init__(self, request: LeafRequest, pool: KVPool, seed: int = 0) -> None:
        super().__init__(request, pool, seed)
        self.oracle: Oracle = oracle_for(pool)

    @property
    def by_fallback(self) -> bool:
        """True where the pool declares no regions, so that rows are read behind its read doors."""
        return self.oracle.source == "read doors"

    @property
    def layer_ids(self) -> range:
        """The global ids of the requested layers."""
        return range(self.request.start_layer, self.request.end_layer)

    @property
    def slots(self) -> int:
        """Rows of a buffer: the requested size and the reserved page."""
        return self.request.size + self.request.page_size

    @property
    def sides(self) -> tuple[Side, ...]:
        """What a token has of its own: a latent row is its own value."""
        return ("key", "value") if isinstance(self.request, MHALeafRequest) else ("key",)

    def row_shape(self, side: Side) -> tuple[int, int]:
        """Heads and width of a row."""
        match self.request:
            case MHALeafRequest(head_num=heads, head_dim=width):
                return heads, width if side == "key" else self.request.value_head_dim
            case (
                MLALeafRequest(kv_lora_rank=rank, qk_rope_head_dim=rope)
                | DSALeafRequest(kv_lora_rank=rank, qk_rope_head_dim=rope)
            ):
                return 1, rank + rope if side == "key" else rank

    def rows(self, side: Side, n: int, salt: int = 0) -> Tensor:
        """`[n, heads, width]` float32: integers 1..7, another sequence in each row and side."""
        heads, width = self.row_shape(side)
        count = torch.arange(n * heads * width, dtype=torch.int64)
        step = 3 if side == "key" else 5
        return (1 + (count * step + count // width + salt) % 7).view(n, heads, width).float()

    def pair(self, n: int, salt: int = 0) -> tuple[Tensor, Tensor]:
        """Key and value rows in the request's dtype, bf16 where that is fp8."""
        quantised = self.request.dtype.itemsize == 1
        dtype = torch.bfloat16 if quantised else self.request.dtype
        return self.rows("key", n, salt).to(dtype), self.rows("value", n, salt + 1).to(dtype)

    def write(self, loc: Tensor, k: Tensor, v: Tensor, layer_id: int | None = None) -> None:
        """`set_kv_buffer` on a layer, the first one by default."""
        layer = LayerStub(self.layer_ids[0] if layer_id is None else layer_id)
        self.pool.set_kv_buffer(layer, loc, k, v)

    def stored(self, side: Side, layer_id: int | None = None) -> Tensor:
        """All rows of a layer as the oracle finds them, float32."""
        return self.oracle.rows(side, self.layer_ids[0] if layer_id is None else layer_id).float()

    def expect_rows(
        self, call: str, side: Side, rows: Mapping[int, Tensor], layer_id: int | None = None
    ) -> None:
        """Exactly these rows are stored and every other row of the layer is zero."""
        expected = torch.zeros(self.slots, *self.row_shape(side))
        for slot, row in rows.items():
            expected[slot] = row.float()
        self.expect_same(call, self.stored(side, layer_id), expected, f"{side} row")
