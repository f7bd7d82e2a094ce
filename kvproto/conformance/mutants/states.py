"""State pools, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from kvproto.kernels import clear_slots, copy_slots
from kvproto.protocols import (
    StatePoolRequest,
)
from kvproto.reference import (
    RecurrentStatePool,
)
from kvproto.reference.host_state import HostState

from .registry import mutant

Infos = tuple[list[int], list[int], list[int]]


@mutant("state.tensors", serves=StatePoolRequest)
class HasNoReservedSlot(RecurrentStatePool):
    def __init__(self, *, size: int, **named: Any) -> None:
        super().__init__(size=size - 1, **named)
        self.size = size


@mutant("state.clear", source="vllm-project/vllm#56524", serves=StatePoolRequest)
class SkipsListsOfTensors(RecurrentStatePool):
    def clear_slots(self, indices: Tensor, /) -> None:
        clear_slots(self.mamba_cache.temporal, indices)


@mutant("state.clear", source="vllm-project/vllm#56524", serves=StatePoolRequest)
class ClearsByMultiplying(RecurrentStatePool):
    def clear_slots(self, indices: Tensor, /) -> None:
        for tensor in self.mamba_cache.persistent():
            tensor[:, indices.long()] *= 0


@mutant("state.copy", source="vllm-project/vllm#56524", serves=StatePoolRequest)
class ForksConvolutionsOnly(RecurrentStatePool):
    def copy_from(self, src_indices: Tensor, dst_indices: Tensor, /) -> None:
        for tensor in self.mamba_cache.conv:
            copy_slots(tensor, src_indices, dst_indices)


@mutant("state.copy", serves=StatePoolRequest)
class MovesInsteadOfForking(RecurrentStatePool):
    def copy_from(self, src_indices: Tensor, dst_indices: Tensor, /) -> None:
        super().copy_from(src_indices, dst_indices)
        self.clear_slots(src_indices)


@mutant("state.slot-zero", serves=StatePoolRequest)
class ForksOntoSlotZero(RecurrentStatePool):
    def copy_from(self, src_indices: Tensor, dst_indices: Tensor, /) -> None:
        for tensor in self.mamba_cache.persistent():
            tensor[:, dst_indices] = tensor[:, src_indices]


@mutant("state.host-copy", source="sgl-project/sglang#22493", serves=StatePoolRequest)
class DropsTheTemporalState(RecurrentStatePool):
    def load_cpu_copy(self, mamba_cache_cpu: HostState, indices: Tensor, /) -> None:
        kept = self.mamba_cache.temporal.clone()
        super().load_cpu_copy(mamba_cache_cpu, indices)
        self.mamba_cache.temporal.copy_(kept)


@mutant("state.host-copy", serves=StatePoolRequest)
class KeepsSlotsInPlaceOfACopy(RecurrentStatePool):
    def get_cpu_copy(self, indices: Tensor, /) -> Any:
        return indices.clone()

    def load_cpu_copy(self, mamba_cache_cpu: Any, indices: Tensor, /) -> None:
        self.copy_from(mamba_cache_cpu, indices)


@mutant("state.transfer-items", source="sgl-project/sglang#26490", serves=StatePoolRequest)
class OneItemPerLayer(RecurrentStatePool):
    def get_contiguous_buf_infos(self) -> Infos:
        pointers, lengths, _ = super().get_contiguous_buf_infos()
        return pointers, lengths, list(lengths)


@mutant("state.transfer-items", source="sgl-project/sglang#36331", serves=StatePoolRequest)
class NamesPositions(RecurrentStatePool):
    def get_state_layer_ids(self) -> list[int]:
        return [self.mamba_layer_ids.index(i) for i in super().get_state_layer_ids()]


@mutant("state.layer-cache", serves=StatePoolRequest)
class HandsOutCopies(RecurrentStatePool):
    def mamba2_layer_cache(self, layer_id: int, /) -> Any:
        one = super().mamba2_layer_cache(layer_id)
        return replace(one, temporal=one.temporal.clone(), conv=[t.clone() for t in one.conv])


@mutant("state.drafts", serves=StatePoolRequest)
class KeepsDraftsOfEverySlot(RecurrentStatePool):
    def __init__(self, *, spec_state_size: int | None = None, **named: Any) -> None:
        super().__init__(spec_state_size=None, **named)


@mutant("state.drafts-apart", serves=StatePoolRequest)
class ClearsDraftsWithSlots(RecurrentStatePool):
    def clear_slots(self, indices: Tensor, /) -> None:
        rows = indices.clamp(max=self.mamba_cache.all_tensors()[-1].shape[1] - 1)
        super().clear_slots(indices)
        for tensor in self.mamba_cache.all_tensors()[1 + len(self.mamba_cache.conv) :]:
            clear_slots(tensor, rows)


@mutant("state.size", serves=StatePoolRequest)
class CountsNoDrafts(RecurrentStatePool):
    def get_kv_size_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.mamba_cache.persistent())


@mutant("state.sync-free", source="sgl-project/sglang#36751", serves=StatePoolRequest)
class FiltersPaddedSlots(RecurrentStatePool):
    def clear_slots(self, indices: Tensor, /) -> None:
        super().clear_slots(indices[indices > 0])
