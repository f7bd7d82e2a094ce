"""A pool with read and write doors on the bench: rows to write, and an oracle to read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from kvproto.protocols import (
    BufferRegion,
    DeclaresTraits,
    DSALeafRequest,
    KVPool,
    Layout,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)

from .bench import Bench
from .door_layouts import DoorForm, Rows, form_of
from .oracle import Oracle, oracle_for
from .row_access import RowAccess
from .stored_rows import Side

__all__ = ["KVBench", "LayerStub", "Side", "WriteLoc", "has_heads"]


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
        self.oracle: Oracle = oracle_for(pool, self.door_form, self.fallback)

    def look_through(self, row_access: RowAccess) -> None:
        """Read what no declared region holds as the vendor's own tests do."""
        self.oracle = replace(self.oracle, row_access=row_access)

    def sibling(self, pool: Any, request: Any = None) -> Self:
        """The same, with the vendor's eyes."""
        beside = super().sibling(pool, request)
        if self.oracle.row_access is not None:
            beside.look_through(self.oracle.row_access)
        return beside

    @property
    def layer_ids(self) -> Sequence[int]:
        """The global ids of the layers that the pool's doors serve."""
        return range(self.request.start_layer, self.request.end_layer)

    @property
    def page_layer_ids(self) -> Sequence[int]:
        """Those of them whose rows are in the regions that are exported by page."""
        return self.layer_ids

    @property
    def foreign_layer_ids(self) -> list[int]:
        """Ids that the pool does not own: around those it does, between them, and -1."""
        owned = self.layer_ids
        first = owned[0] if owned else self.request.start_layer
        near = {
            -1,
            0,
            first,
            first - 1,
            first - len(owned),
            len(owned) - 1,
            *(i + 1 for i in owned),
        }
        return sorted(near - set(owned))

    @property
    def slots(self) -> int:
        """Rows of a buffer: the requested size and the reserved page."""
        return self.request.size + self.request.page_size

    @property
    def sides(self) -> tuple[Side, ...]:
        """What a token has of its own: a latent row is its own value."""
        return ("key", "value") if has_heads(self.request) else ("key",)

    @property
    def shown_sides(self) -> tuple[Side, ...]:
        """The sides whose read doors show what is stored of a token, no part of it twice."""
        return self.sides

    def shown_row(self, side: Side, rows: Mapping[Side, Tensor]) -> Tensor:
        """What the door of a shown side has of a token's rows, `[..., heads, width]`."""
        return rows[side]

    @property
    def read_doors(self) -> tuple[str, ...]:
        """The names of the pool's read doors."""
        return "get_key_buffer", "get_value_buffer", "get_kv_buffer"

    def door_pair(self, layer_id: int) -> tuple[Tensor, Tensor]:
        """What one call shows of both sides."""
        key, value = self.pool.get_kv_buffer(layer_id)
        return key, value

    @property
    def packed(self) -> bool:
        """Whether a row is bytes of several element types: latents, their scales, rope."""
        return self.request.quant_scheme == "dsa_fp8_packed"

    @property
    def read_dtype(self) -> torch.dtype:
        """The element type of what read doors return."""
        return self.request.dtype

    @property
    def reads_copies(self) -> bool:
        """Whether the pool declares that its read doors return no alias of what is stored."""
        pool: object = self.pool
        return isinstance(pool, DeclaresTraits) and pool.pool_traits.read_door != "alias"

    def as_shown(self, door: Tensor, side: Side, layer_id: int) -> tuple[Tensor, Tensor]:
        """What a read door returned, and what it should be, as something to compare."""
        if self.packed:  # what is stored, as it is
            raw = door.contiguous().view(torch.uint8).flatten(1)
            return raw, self.oracle.stored_bytes(side, layer_id)
        return door.float(), self.stored(side, layer_id)

    def stored_elements(self, side: Side, layer_id: int | None = None) -> int:
        """Elements of the storage in a row of a side."""
        heads, width = self.row_shape(side, layer_id)
        return heads * width

    def token_bytes(self, layer_id: int | None = None) -> int:
        """Bytes of a token's rows in a layer, packed scales among them."""
        if isinstance(self.request, DSALeafRequest):
            return self.request.kv_cache_dim * self.request.dtype.itemsize
        shapes = [self.row_shape(side, layer_id) for side in self.sides]
        return sum(heads * width for heads, width in shapes) * self.request.dtype.itemsize

    def row_shape(self, side: Side, layer_id: int | None = None) -> tuple[int, int]:
        """Heads and width of a row; of the first layer by default, where layers differ."""
        match self.request:
            case (
                MHALeafRequest(head_num=heads, head_dim=width)
                | SparseIndexLeafRequest(head_num=heads, head_dim=width)
            ):
                return heads, width if side == "key" else self.request.value_head_dim
            case (
                MLALeafRequest(kv_lora_rank=rank, qk_rope_head_dim=rope)
                | DSALeafRequest(kv_lora_rank=rank, qk_rope_head_dim=rope)
            ):
                return 1, rank + rope if side == "key" else rank

    def layout_of(self, layer_id: int) -> Layout:
        """How a layer's rows were asked to lie."""
        return self.request.layout

    def door_form(self, side: Side, layer_id: int) -> DoorForm | None:
        """The form in which a read door must show a layer; None if the kit has no view of it.

        Packed latent rows are as wide as the bytes they are stored in.
        """
        heads, width = self.row_shape(side, layer_id)
        if self.packed and side == "key":
            width = self.token_bytes(layer_id)
        slots, request = self.slots_in(layer_id), self.request
        rows = Rows(side, slots, request.page_size, heads, width, request.dtype.itemsize)
        return form_of(self.layout_of(layer_id), rows)

    def rows(self, side: Side, n: int, salt: int = 0, layer_id: int | None = None) -> Tensor:
        """`[n, heads, width]` float32: integers 1..7, another sequence in each row and side."""
        heads, width = self.row_shape(side, layer_id)
        count = torch.arange(n * heads * width, dtype=torch.int64)
        step = 3 if side == "key" else 5
        return (1 + (count * step + count // width + salt) % 7).view(n, heads, width).float()

    def pair(self, n: int, salt: int = 0, layer_id: int | None = None) -> tuple[Tensor, Tensor]:
        """Key and value rows for a layer in the request's dtype, bf16 where that is fp8."""
        quantised = self.request.dtype.itemsize == 1
        dtype = torch.bfloat16 if quantised else self.request.dtype
        key, value = self.rows("key", n, salt, layer_id), self.rows("value", n, salt + 1, layer_id)
        return key.to(dtype), value.to(dtype)

    def write(self, loc: Tensor, k: Tensor, v: Tensor, layer_id: int | None = None) -> None:
        """`set_kv_buffer` on a layer, the first one by default."""
        layer = LayerStub(self.layer_ids[0] if layer_id is None else layer_id)
        self.pool.set_kv_buffer(layer, loc, k, v)

    def stored(self, side: Side, layer_id: int | None = None) -> Tensor:
        """All rows of a layer as the oracle finds them, float32."""
        return self.stored_raw(side, layer_id).float()

    def stored_raw(self, side: Side, layer_id: int | None = None) -> Tensor:
        """The same, as the elements that are stored."""
        return self.oracle.rows(side, self.layer_ids[0] if layer_id is None else layer_id)

    def slots_in(self, layer_id: int | None = None) -> int:
        """Rows of the buffers of a layer; of the first layer by default."""
        return self.slots

    @property
    def index_kpool(self) -> int:
        """Tokens that share an index key; 1 where there are none."""
        return 1

    def slots_of(self, region: BufferRegion) -> int:
        """Rows that a region of tokens must hold of a layer."""
        return self.slots

    def slot_of(self, loc: int, layer_id: int | None = None) -> int:
        """The row of a location in a layer's own space; 0 for one that has none there."""
        return loc

    def expect_rows(
        self, call: str, side: Side, rows: Mapping[int, Tensor], layer_id: int | None = None
    ) -> None:
        """Exactly these rows, by location, are stored; every other row of the layer is zero."""
        expected = torch.zeros(self.slots_in(layer_id), *self.row_shape(side, layer_id))
        for loc, row in rows.items():
            if slot := self.slot_of(loc, layer_id):
                expected[slot] = row.float()
        self.expect_same(call, self.stored(side, layer_id), expected, f"{side} row")


def has_heads(request: object, /) -> bool:
    """For laws about rows of keys and of values, by head."""
    return isinstance(request, MHALeafRequest | SparseIndexLeafRequest)
