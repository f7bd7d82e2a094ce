"""A pool with index rows beside its main rows on the bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from kvproto.protocols import SparseIndexLeafRequest

from .kv_bench import KVBench, LayerStub, Side

__all__ = ["IndexSide", "SparseIndexBench", "has_index_rows", "has_index_values"]

IndexSide: TypeAlias = Literal["index_key", "index_value"]


class SparseIndexBench(KVBench):
    """The bench of rows by head with index rows of one head in the sparse layers."""

    # Narrower, and never assigned.
    request: SparseIndexLeafRequest  # pyright: ignore[reportIncompatibleVariableOverride]

    def slots_in(self, layer_id: int | None = None) -> int:
        """Rows of the buffers of a layer: those of ids in a dense one."""
        at = self.layer_ids[0] if layer_id is None else layer_id
        return self.slots if at in self.request.index_layer_ids else self.request.id_slots

    def index_sides(self, layer_id: int) -> tuple[IndexSide, ...]:
        """What index rows a layer has: none, keys, or keys and values."""
        if layer_id in self.request.index_value_layer_ids:
            return "index_key", "index_value"
        return ("index_key",) if layer_id in self.request.index_layer_ids else ()

    def index_rows(self, n: int, salt: int = 0) -> tuple[Tensor, Tensor]:
        """`n` index keys and values `[n, 1, idx_head_dim]`: small integers, all rows different."""
        width, dtype = self.request.idx_head_dim, self.request.stored_index_dtype
        count = torch.arange(n * width, dtype=torch.int64)
        rows = [
            (1 + (count * step + count // width + salt) % 7).view(n, 1, width) for step in (2, 5)
        ]
        given = torch.bfloat16 if dtype.itemsize == 1 else dtype
        return rows[0].to(given), rows[1].to(given)

    def write_fused(
        self, loc: Tensor, layer_id: int, salt: int = 0, *scales: float | Tensor | None
    ) -> dict[str, Tensor]:
        """`set_fused_kv_index_buffer` on a sparse layer; the rows that were given, by side."""
        k, v = self.pair(len(loc), salt, layer_id)
        index_k, index_v = self.index_rows(len(loc), salt)
        given = {"key": k, "value": v, "index_key": index_k, "index_value": index_v}
        sides = self.index_sides(layer_id)
        self.call_fused(loc, layer_id, given, index_v if "index_value" in sides else None, *scales)
        return {side: given[side] for side in (*self.sides, *sides)}

    def call_fused(
        self,
        loc: Tensor,
        layer_id: int,
        given: Mapping[str, Tensor],
        index_v: Tensor | None,
        *scales: float | Tensor | None,
    ) -> None:
        """The same with these rows."""
        rows = (given["key"], given["value"], given["index_key"], index_v)
        self.pool.set_fused_kv_index_buffer(LayerStub(layer_id), loc, *rows, *scales)

    def stored_index(self, side: IndexSide, layer_id: int) -> Tensor:
        """All index rows of a layer, `[slots, 1, width]`, as the oracle finds them."""
        found = self.oracle.index_rows(side, layer_id)
        return found.view(-1, 1, self.request.idx_head_dim)

    def expect_side(self, call: str, side: str, rows: Mapping[int, Tensor], layer_id: int) -> None:
        """Exactly these rows of a side, main or index, are stored in a layer; the rest is zero."""
        if side in ("key", "value"):
            main: Side = "key" if side == "key" else "value"
            self.expect_rows(call, main, rows, layer_id)
            return
        expected = torch.zeros(self.slots, 1, self.request.idx_head_dim)
        for slot, row in rows.items():
            expected[slot] = row.float()
        which: IndexSide = "index_value" if side == "index_value" else "index_key"
        got = self.stored_index(which, layer_id).float()
        self.expect_same(call, got, expected, f"{side} of layer {layer_id}, slot")

    def everything(self) -> dict[tuple[str, int], Tensor]:
        """All rows of all layers, main and index, float32 by side and layer."""
        found: dict[tuple[str, int], Tensor] = {
            (s, i): self.stored(s, i) for i in self.layer_ids for s in self.sides
        }
        for layer_id in self.layer_ids:
            for side in self.index_sides(layer_id):
                found[side, layer_id] = self.stored_index(side, layer_id).float()
        return found

    def expect_everything(self, call: str, rows: Mapping[tuple[str, int], Tensor]) -> None:
        """All rows of all layers are these."""
        found = self.everything()
        for (side, layer_id), expected in rows.items():
            got = found[side, layer_id]
            self.expect_same(call, got, expected, f"{side} of layer {layer_id}, slot")

    def fill(self) -> None:
        """Main and index rows in every slot but 0 of every layer, all different from zero."""
        loc = torch.arange(1, self.slots)
        for layer_id in self.layer_ids:
            if self.index_sides(layer_id):
                self.write_fused(loc, layer_id, layer_id)
            else:
                self.write(loc, *self.pair(len(loc), layer_id, layer_id), layer_id)

    @property
    def dense_layer_ids(self) -> Sequence[int]:
        """The layers of the stage that have no index rows."""
        return [i for i in self.layer_ids if not self.index_sides(i)]


def has_index_rows(request: object, /) -> bool:
    """For laws that need a sparse layer."""
    return isinstance(request, SparseIndexLeafRequest) and bool(request.index_layer_ids)


def has_index_values(request: object, /) -> bool:
    """For laws that need a layer with index values."""
    return isinstance(request, SparseIndexLeafRequest) and bool(request.index_value_layer_ids)
