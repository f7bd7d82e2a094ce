"""Leaves of keys alone and of nothing, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import to_stored
from kvproto.protocols import KeyOnlyLeafRequest, NoOpLeafRequest
from kvproto.reference import KeyOnlyLeaf, NoOpLeaf

from .registry import mutant


@mutant("leaf.write-read", source="sgl-project/sglang#36331", serves=KeyOnlyLeafRequest)
class WritesByLocalId(KeyOnlyLeaf):
    """Writes take the layer's place in the stage, where reads take its global id."""

    def set_k_buffer(self, layer_id: int, loc: Tensor, cache_k: Tensor, /) -> None:
        super().set_k_buffer(self.start_layer + layer_id, loc, cache_k)


@mutant("leaf.slot-zero", source="sgl-project/sglang#36207", serves=KeyOnlyLeafRequest)
class KeysInTheReservedSlot(KeyOnlyLeaf):
    def set_k_buffer(self, layer_id: int, loc: Tensor, cache_k: Tensor, /) -> None:
        rows = to_stored(cache_k, self.dtype)
        self.k_buffer[self._layers.local(layer_id)][loc.clamp(min=0).long()] = rows


@mutant("declaration.half-offered", serves=KeyOnlyLeafRequest)
class KeysWithAValueDoor(KeyOnlyLeaf):
    """A door for values that are not there, without the rest of what goes with it."""

    def get_value_buffer(self, layer_id: int, /) -> Tensor:  # type: ignore[override]
        return self.get_key_buffer(layer_id)

    get_kv_buffer: Any = KeyOnlyLeaf.get_key_buffer
    set_kv_buffer: Any = KeyOnlyLeaf.set_k_buffer


@mutant("transfer.item-len", source="sgl-project/sglang#26490", serves=KeyOnlyLeafRequest)
class KeyItemsOfTokens(KeyOnlyLeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers, lengths, [item // self.page_size for item in items]


@mutant("noop.offers-nothing", serves=NoOpLeafRequest)
class DropsRowsInSilence(NoOpLeaf):
    def set_kv_buffer(  # type: ignore[override]
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, /
    ) -> None:
        pass

    def register_layer_transfer_counter(self, layer_transfer_counter: Any, /) -> None:
        pass


@mutant("noop.allocates-nothing", serves=NoOpLeafRequest)
class AllocatesEverySlot(NoOpLeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rows = torch.zeros(self.size, self.head_num, self.head_dim, dtype=self.store_dtype)


@mutant("noop.placeholder", serves=NoOpLeafRequest)
class ShowsOneSlot(NoOpLeaf):
    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        return super().get_key_buffer(layer_id)[:1]


@mutant("noop.geometry", serves=NoOpLeafRequest)
class HasNoSize(NoOpLeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.size = 0


@mutant("noop.traits", serves=NoOpLeafRequest)
class SaysItKeepsRows(NoOpLeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_traits = replace(self.pool_traits, kind="mha")
