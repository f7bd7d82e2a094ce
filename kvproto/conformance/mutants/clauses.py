"""Pools that break one clause of a docstring that the plain cases do not reach."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from kvproto.kernels import move_rows, store_rows
from kvproto.protocols import (
    MHALeafRequest,
    PoolTraits,
    RequestPoolRequest,
    StatePoolRequest,
    StateSlotsRequest,
)
from kvproto.reference import HybridLinearPool, MHALeaf, RecurrentStatePool, SWAPool
from kvproto.reference.host_rows import HostRows
from kvproto.reference.request_pool import ReqToToken
from kvproto.reference.state_slot_allocator import StateSlots

from .account_builders import rows, states
from .composite_builders import composite
from .registry import mutant


class _Layer:
    def __init__(self, layer_id: int) -> None:
        self.layer_id = layer_id


@mutant("leaf.write-foreign", source="sgl-project/sglang#22605", serves=MHALeafRequest)
class WritesToTheLayerItHas(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        own = _Layer(self.start_layer + (layer.layer_id - self.start_layer) % self.layer_num)
        super().set_kv_buffer(own, loc_info, *rows, **named)


@mutant("write.override-refuses", serves=MHALeafRequest)
class ClampsOverrides(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        override = named.get("layer_id_override")
        if override is not None:
            last = self.end_layer - 1
            named["layer_id_override"] = min(max(override, self.start_layer), last)
        super().set_kv_buffer(layer, loc_info, *rows, **named)


@mutant("write.override-first", serves=MHALeafRequest)
class TakesLayerZeroForNone(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        named["layer_id_override"] = named.get("layer_id_override") or None
        super().set_kv_buffer(layer, loc_info, *rows, **named)


@mutant("move.out-of-range", source="sgl-project/sglang#31215", serves=MHALeafRequest)
class ClampsMoves(MHALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        last = self.size + self.page_size - 1
        for buffer in self._row_buffers():
            move_rows(buffer, tgt_loc.clamp(max=last), src_loc.clamp(max=last))


@composite("swa.translate-range")
class AnswersForTheFurtherEntry(SWAPool):
    def register_mapping(self, full_to_swa_index_mapping: Tensor, /) -> None:
        super().register_mapping(full_to_swa_index_mapping)
        self._peers = full_to_swa_index_mapping


@mutant("leaf.input-dtypes", serves=MHALeafRequest)
class ReadsRowsAsItsOwnDtype(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        k, v, *more = rows
        if k.dtype.itemsize == self.dtype.itemsize:
            k, v = k.view(self.dtype), v.view(self.dtype)
        super().set_kv_buffer(layer, loc_info, k, v, *more, **named)


@mutant("write.scales-ignored", source="sgl-project/sglang#18818", serves=MHALeafRequest)
class ScalesWhateverItStores(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        k, v, *scales = rows
        if len(scales) == 2:
            k, v = k / scales[0], v / scales[1]
        super().set_kv_buffer(layer, loc_info, k, v, **named)


@mutant("host-copy.padding", serves=MHALeafRequest)
class RestoresOntoTheReservedSlot(MHALeaf):
    def load_cpu_copy(
        self,
        kv_cache_cpu: HostRows,
        indices: Tensor,
        mamba_indices: Any = None,
        req_pool_index: Any = None,
    ) -> None:
        for buffer, saved in zip(self._row_buffers(), kv_cache_cpu.rows, strict=True):
            store_rows(buffer, indices, saved)
            buffer[indices[indices <= 0]] = saved[indices <= 0]


@composite("hybrid.full-loc")
class LooksAtLocOnly(HybridLinearPool):
    def _locations(self, place: Any, loc_info: Any) -> Tensor:
        loc: Tensor = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        return loc


@mutant("state.slices", serves=StatePoolRequest)
class SplitsEveryFirstAxis(RecurrentStatePool):
    def get_state_dim_per_tensor(self) -> list[int]:
        return [entry.slot_shape[0] for entry in self._entries()]


@mutant("traits.constant", serves=MHALeafRequest)
class LearnsItsRole(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        super().set_kv_buffer(layer, loc_info, *rows, **named)
        told: PoolTraits = self.pool_traits
        self.pool_traits = replace(told, role="draft")


@mutant("mha.buffers", source="sgl-project/sglang#25249", serves=MHALeafRequest)
class ListsBuffersInReverse(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._right = self.k_buffer
        self.k_buffer = self.k_buffer[::-1]

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        return self._right[self._fenced(layer_id)].view(self.dtype)


@mutant("request.entries-stay", serves=RequestPoolRequest, build=rows)
class ClearsRowsThatComeBack(ReqToToken):
    def free(self, req: Any, /) -> None:
        row = req.kv.req_pool_idx
        super().free(req)
        self.req_to_token[row].zero_()


@mutant("state-slots.schedulable", serves=StateSlotsRequest, build=states)
class PlansWithEverySlot(StateSlots):
    def schedulable_available_size(self) -> int:
        return self.size
