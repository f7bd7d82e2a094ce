"""Composites, and hybrids, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from kvproto.protocols import Declined, LayerIdReporting, MHALeafRequest, PoolTraits
from kvproto.reference import HybridLinearPool, MHALeaf
from kvproto.reference.composite_index import IndexDoors
from kvproto.reference.composite_pool import CompositePool

from .composite_builders import composite

Infos = tuple[list[int], list[int], list[int]]


@composite("composite.leaves")
class NamesEveryPartAlike(CompositePool):
    def leaves(self) -> tuple[tuple[str, object], ...]:
        return tuple(("leaf", leaf) for _, leaf in super().leaves())


@composite("composite.leaves", source="sgl-project/sglang#35594")
class KeepsRowsOfItsOwn(CompositePool):
    def spoil(self) -> None:
        self.shadow = torch.zeros(self.size + self.page_size, 16)


@composite("composite.leaf-for", source="sgl-project/sglang#36331")
class AsksLeavesByGlobalId(CompositePool):
    def leaf_for(self, layer_id: int, /) -> tuple[Any, int]:
        return super().leaf_for(layer_id)[0], layer_id


@composite("composite.capabilities", source="sgl-project/sglang#27679")
class ForwardsIndexDoorsBlindly(IndexDoors):
    pass


@composite("composite.capabilities", source="sgl-project/sglang#27679")
class HidesIndexKeys(CompositePool):
    get_index_k_with_scale_buffer = None


@composite("composite.operations", source="sgl-project/sglang#36591")
class HidesMoves(CompositePool):
    move_kv_cache = None


@composite("composite.operations")
class HidesResuming(CompositePool):
    restore_reserved = None


class _Fixed(MHALeaf):
    move_kv_cache: None = None  # type: ignore[assignment]


def _fixed(request: Any) -> Any:
    match request:
        case MHALeafRequest(layout="nhd", quant_scheme="none" | "fp8_scaled"):
            return _Fixed(**request.keywords())
        case _:
            return Declined("plain rows by head only")


@composite("composite.operations", source="sgl-project/sglang#33385", build_leaf=_fixed)
class ForwardsMovesBlindly(CompositePool):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        cast("Any", self.lead).move_kv_cache(tgt_loc, src_loc)


@composite("composite.leaves-only")
class DescribesItsFirstLeaf(CompositePool):
    host_capacity_tokens: int | None = None
    host_capacity_bytes: int | None = None

    def get_device_pool_infos(self) -> tuple[object, ...]:
        return (self.lead,)

    def host_pool_decls(self) -> tuple[object, ...]:
        return (self.lead,)


@composite("composite.traits", source="sgl-project/sglang#36591")
class SpeaksForItsLeaf(CompositePool):
    @property
    def pool_traits(self) -> PoolTraits:
        return cast("PoolTraits", cast("Any", self.lead).pool_traits)


@composite("hybrid.layers", source="sgl-project/sglang#22605")
class ServesRecurrentLayers(HybridLinearPool):
    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        known = layer_id in self.full_attention_layer_id_mapping
        return super().get_key_buffer(layer_id if known else self.layer_ids[0])


@composite("hybrid.geometry", source="sgl-project/sglang#22605")
class ProbesLayerZero(HybridLinearPool):
    @property
    def v_head_dim(self) -> int:
        return self.get_value_buffer(0).shape[-1]


@composite("hybrid.geometry", source="sgl-project/sglang#25476")
class EndsWithItsLastLayer(HybridLinearPool):
    def spoil(self) -> None:
        self.end_layer -= 1


@composite("hybrid.transfer", source="sgl-project/sglang#36331")
class NamesLeafLayers(HybridLinearPool):
    def get_kv_layer_ids(self) -> list[int]:
        return cast("LayerIdReporting", self.full_kv_pool).get_kv_layer_ids()


@composite("hybrid.transfer", source="sgl-project/sglang#23539")
class LeavesStateBehind(HybridLinearPool):
    def get_state_buf_infos(self) -> Infos:
        return [], [], []


@composite("hybrid.host-copy", source="sgl-project/sglang#22493")
class CopiesRowsWithoutState(HybridLinearPool):
    def get_cpu_copy(self, indices: Tensor, *_: Any, **__: Any) -> Any:
        return cast("Any", super()).get_cpu_copy(indices)

    def load_cpu_copy(self, kv_cache_cpu: Any, indices: Tensor, *_: Any, **__: Any) -> None:
        cast("Any", super()).load_cpu_copy(kv_cache_cpu, indices)
