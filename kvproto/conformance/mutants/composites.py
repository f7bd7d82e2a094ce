"""Window pairs, hybrids and state pools, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from kvproto.kernels import clear_slots, copy_slots
from kvproto.protocols import (
    Declined,
    HybridPoolRequest,
    LayerIdReporting,
    MHALeafRequest,
    PoolTraits,
    StatePoolRequest,
    SWAPoolRequest,
)
from kvproto.reference import (
    HybridLinearPool,
    MHALeaf,
    RecurrentStatePool,
    SWAPool,
    build_reference_pool,
)
from kvproto.reference.composite_index import IndexDoors
from kvproto.reference.composite_pool import CompositePool
from kvproto.reference.host_state import HostState

from .registry import MUTANTS, Mutant, mutant

Infos = tuple[list[int], list[int], list[int]]
T = TypeVar("T", bound=type[CompositePool])


def _composite(
    law: str, *, source: str = "", asks: Callable[[Any], Any] = lambda request: request
) -> Callable[[T], T]:
    """Register a class of faulty members, put before those of the reference's composites.

    Of the pairs or the hybrids alone where it derives from them. `asks` changes the request before
    the reference is asked; a `spoil` method is called once the pool is there.
    """

    def register(cls: T) -> T:
        fault: type = cls
        kinds: dict[type, type] = {SWAPoolRequest: SWAPool, HybridPoolRequest: HybridLinearPool}
        of_one = [request for request, pool in kinds.items() if issubclass(fault, pool)]
        served = tuple(of_one or kinds)

        def build(request: Any) -> Any:
            if not isinstance(request, served):
                return Declined(f"{fault.__name__} is another composite")
            return _spoilt(build_reference_pool(asks(request)), fault)

        MUTANTS.append(Mutant(fault.__name__, law, source, build))
        return cls

    return register


def _spoilt(pool: Any, fault: type) -> Any:
    own: type = pool.__class__
    pool.__class__ = type(fault.__name__, (fault, own), {})
    if hasattr(pool, "spoil"):
        pool.spoil()
    return pool


@_composite("swa.translate", source="lightseekorg/tokenspeed#709")
class WrapsNegativesInTheTable(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        table = self.full_to_swa_index_mapping
        assert table is not None
        return table[kv_indices.long()]


@_composite("swa.translate", source="sgl-project/sglang#38519")
class KeepsLocationsWithoutPeer(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        peers = super().translate_loc_from_full_to_swa(kv_indices)
        return torch.where(peers == 0, kv_indices.to(peers.dtype), peers)


@_composite("swa.translate-form", source="sgl-project/sglang#24743")
class TakesTheDtypeThatComes(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return super().translate_loc_from_full_to_swa(kv_indices).to(kv_indices.dtype)


@_composite("swa.translate-form")
class FlattensLocations(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        return super().translate_loc_from_full_to_swa(kv_indices).flatten()


@_composite("swa.mapping-live", source="sgl-project/sglang#27779")
class CopiesTheTable(SWAPool):
    def register_mapping(self, full_to_swa_index_mapping: Tensor, /) -> None:
        super().register_mapping(full_to_swa_index_mapping.clone())


@_composite("swa.layers", source="sgl-project/sglang#36331")
class MapsToGlobalIds(SWAPool):
    def spoil(self) -> None:
        self.layers_mapping = {i: (i, window) for i, (_, window) in self.layers_mapping.items()}


@_composite("swa.layers")
class CountsEveryLayer(SWAPool):
    @property
    def swa_layer_nums(self) -> int:
        return len(self.layer_ids)


def _without_value_width(request: SWAPoolRequest) -> SWAPoolRequest:
    if not isinstance(request.full, MHALeafRequest):
        return request
    return replace(request, full=replace(request.full, v_head_dim=None))


@_composite("swa.geometry", source="sgl-project/sglang#39058", asks=_without_value_width)
class ForgetsTheValueWidth(SWAPool):
    pass


@_composite("swa.geometry", source="sgl-project/sglang#18039")
class CountsTheReservedPage(SWAPool):
    @property
    def size_swa(self) -> int:
        return super().size_swa + self.page_size


@_composite("swa.geometry-all-window", source="sgl-project/sglang#22605")
class ProbesTheFirstFullLayer(SWAPool):
    @property
    def dtype(self) -> torch.dtype:
        return self.full_kv_pool.get_key_buffer(self.full_kv_pool.start_layer).dtype


@_composite("swa.write-full")
class TranslatesForEveryLayer(SWAPool):
    def _locations(self, place: Any, loc_info: Any) -> Tensor:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        peers = self.translate_loc_from_full_to_swa(loc)
        return peers if place.leaf is self.swa_kv_pool else torch.where(peers > 0, loc, 0)


@_composite("swa.write-window", source="sgl-project/sglang#24138")
class WritesWindowsAtFullLocations(SWAPool):
    def _locations(self, place: Any, loc_info: Any) -> Tensor:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        size = place.leaf.size + place.leaf.page_size
        return torch.where(loc < size, loc, 0)


@_composite("swa.bare-loc", source="sgl-project/sglang#27617")
class NeedsTranslatedLocations(SWAPool):
    def _locations(self, place: Any, loc_info: Any) -> Tensor:
        if isinstance(loc_info, Tensor) or loc_info.swa_loc is not None:
            return super()._locations(place, loc_info)
        loc = cast("Tensor", loc_info.loc)
        return loc.clamp(max=place.leaf.size) if place.leaf is self.swa_kv_pool else loc


@_composite("swa.padding", source="sgl-project/sglang#24743")
class StoresPaddedWindowRows(SWAPool):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        place = self._place(layer.layer_id)
        if place.leaf is not self.swa_kv_pool:
            super().set_kv_buffer(layer, loc_info, *rows, **named)
            return
        loc = self._locations(place, loc_info).clamp(min=0)
        for buffer, given in zip(place.leaf.get_kv_buffer(place.layer_id), rows, strict=False):
            buffer[loc, ..., : given.shape[-1]] = given.to(buffer.dtype)[..., : buffer.shape[-1]]


@_composite("swa.move", source="sgl-project/sglang#31215")
class MovesOntoWindowSlotZero(SWAPool):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        cast("Any", self.full_kv_pool).move_kv_cache(tgt_loc, src_loc)
        targets, sources = map(self.translate_loc_from_full_to_swa, (tgt_loc, src_loc))
        window = self.swa_kv_pool
        for layer_id in range(window.start_layer, window.end_layer):
            for buffer in window.get_kv_buffer(layer_id):
                buffer[targets] = buffer[sources]


@_composite("swa.move")
class MovesTheFullSideOnly(SWAPool):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        cast("Any", self.full_kv_pool).move_kv_cache(tgt_loc, src_loc)


@_composite("swa.host-copy", source="sgl-project/sglang#33385")
class CopiesTheFullSideOnly(SWAPool):
    def get_cpu_copy(self, indices: Tensor, *rest: Any, **named: Any) -> Any:
        return replace(cast("Any", super()).get_cpu_copy(indices, *rest, **named), window=None)


@_composite("swa.host-copy")
class RestoresInAnotherOrder(SWAPool):
    def load_cpu_copy(self, kv_cache_cpu: Any, indices: Tensor, *rest: Any, **named: Any) -> None:
        cast("Any", super()).load_cpu_copy(kv_cache_cpu, indices.flip(0), *rest, **named)


@_composite("swa.transfer", source="sgl-project/sglang#23539")
class HidesTheWindow(SWAPool):
    def get_state_buf_infos(self) -> Infos:
        return [], [], []


@_composite("swa.transfer")
class ExportsTheWindowTwice(SWAPool):
    def get_contiguous_buf_infos(self) -> Infos:
        full, window = (
            cast("Any", leaf).get_contiguous_buf_infos()
            for leaf in (self.full_kv_pool, self.swa_kv_pool)
        )
        pointers, lengths, items = (a + b for a, b in zip(full, window, strict=True))
        return pointers, lengths, items


@_composite("swa.transfer", source="sgl-project/sglang#26490")
class CountsWindowItemsByToken(SWAPool):
    def get_state_buf_infos(self) -> Infos:
        pointers, lengths, items = cast("Any", super()).get_state_buf_infos()
        return pointers, lengths, [item // self.page_size for item in items]


@_composite("swa.sync-free", source="sgl-project/sglang#36751")
class FiltersBeforeTranslating(SWAPool):
    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        peers = torch.zeros(kv_indices.shape, dtype=torch.int64)
        there = kv_indices > 0
        peers[there] = super().translate_loc_from_full_to_swa(kv_indices[there])
        return peers


@_composite("composite.leaves")
class NamesEveryPartAlike(CompositePool):
    def leaves(self) -> tuple[tuple[str, object], ...]:
        return tuple(("leaf", leaf) for _, leaf in super().leaves())


@_composite("composite.leaves", source="sgl-project/sglang#35594")
class KeepsRowsOfItsOwn(CompositePool):
    def spoil(self) -> None:
        self.shadow = torch.zeros(self.size + self.page_size, 16)


@_composite("composite.leaf-for", source="sgl-project/sglang#36331")
class AsksLeavesByGlobalId(CompositePool):
    def leaf_for(self, layer_id: int, /) -> tuple[Any, int]:
        return super().leaf_for(layer_id)[0], layer_id


@_composite("composite.capabilities", source="sgl-project/sglang#27679")
class ForwardsIndexDoorsBlindly(IndexDoors):
    pass


@_composite("composite.capabilities", source="sgl-project/sglang#27679")
class HidesIndexKeys(CompositePool):
    get_index_k_with_scale_buffer = None


@_composite("composite.traits", source="sgl-project/sglang#36591")
class SpeaksForItsLeaf(CompositePool):
    @property
    def pool_traits(self) -> PoolTraits:
        return cast("PoolTraits", cast("Any", self.lead).pool_traits)


@_composite("hybrid.layers", source="sgl-project/sglang#22605")
class ServesRecurrentLayers(HybridLinearPool):
    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        known = layer_id in self.full_attention_layer_id_mapping
        return super().get_key_buffer(layer_id if known else self.layer_ids[0])


@_composite("hybrid.geometry", source="sgl-project/sglang#22605")
class ProbesLayerZero(HybridLinearPool):
    @property
    def v_head_dim(self) -> int:
        return self.get_value_buffer(0).shape[-1]


@_composite("hybrid.geometry", source="sgl-project/sglang#25476")
class EndsWithItsLastLayer(HybridLinearPool):
    def spoil(self) -> None:
        self.end_layer -= 1


@_composite("hybrid.transfer", source="sgl-project/sglang#36331")
class NamesLeafLayers(HybridLinearPool):
    def get_kv_layer_ids(self) -> list[int]:
        return cast("LayerIdReporting", self.full_kv_pool).get_kv_layer_ids()


@_composite("hybrid.transfer", source="sgl-project/sglang#23539")
class LeavesStateBehind(HybridLinearPool):
    def get_state_buf_infos(self) -> Infos:
        return [], [], []


@_composite("hybrid.host-copy", source="sgl-project/sglang#22493")
class CopiesRowsWithoutState(HybridLinearPool):
    def get_cpu_copy(self, indices: Tensor, *_: Any, **__: Any) -> Any:
        return cast("Any", super()).get_cpu_copy(indices)

    def load_cpu_copy(self, kv_cache_cpu: Any, indices: Tensor, *_: Any, **__: Any) -> None:
        cast("Any", super()).load_cpu_copy(kv_cache_cpu, indices)


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


@mutant("debug.validate", source="sgl-project/sglang#27679", serves=MHALeafRequest)
class GatesOnItsOwnClass(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        if type(self) is GatesOnItsOwnClass:
            super().set_kv_buffer(layer, loc_info, *rows, **named)


@mutant("platform.composite-over-vendor", source="sgl-project/sglang#27679", serves=MHALeafRequest)
class WantsItsOwnLayerClass(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        if layer.k_scale is None:
            super().set_kv_buffer(layer, loc_info, *rows, **named)


def answers_nothing(request: Any) -> Any:
    if not isinstance(request, MHALeafRequest):
        return Declined("K and V rows only")
    return MHALeaf(**request.keywords()) if request.layout == "nhd" else None


def gives_no_reason(request: Any) -> Any:
    if isinstance(request, MHALeafRequest) and request.layout == "nhd":
        return MHALeaf(**request.keywords())
    return Declined("")


for _factory in (answers_nothing, gives_no_reason):
    _source = "sgl-project/sglang#27679"
    MUTANTS.append(Mutant(_factory.__name__, "platform.declines", _source, _factory))
