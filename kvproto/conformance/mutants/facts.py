"""Pools and allocators that keep their rows and slots well, and say what is not so."""

# pyright: reportIncompatibleMethodOverride=false, reportIncompatibleVariableOverride=false
# They are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.protocols import (
    AllocatorRequest,
    BufferRegion,
    DSALeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    PoolTraits,
    SWAAllocatorRequest,
)
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf, PageAllocator, SWAPool
from kvproto.reference.composite_pool import CompositePool
from kvproto.reference.swa_allocator import SWAPairAllocator

from .account_builders import alone, paired
from .composite_builders import composite
from .registry import mutant

Infos = tuple[list[int], list[int], list[int]]


@mutant("leaf.device", serves=MHALeafRequest)
class NamesAnotherDevice(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.device = torch.device("cuda")


@mutant("leaf.store-dtype", serves=MHALeafRequest)
class SaysItStoresFp8(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.store_dtype = self.dtype


@mutant("size.mem-usage", serves=MHALeafRequest)
class CountsInThousands(MHALeaf):
    @property
    def mem_usage(self) -> float:
        return sum(self.get_kv_size_bytes()) / 1e9


@mutant("size.predicted", serves=MHALeafRequest)
class KeepsAScratchPage(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row = (self.head_num, self.head_dim)
        self.scratch = torch.zeros((self.page_size, *row), dtype=self.store_dtype)

    def get_kv_size_bytes(self) -> tuple[int, int]:
        key, value = super().get_kv_size_bytes()
        return key + self.scratch.nbytes, value


@mutant("alloc.size", serves=AllocatorRequest, build=alone)
class SizesWithTheReservedPage(PageAllocator):
    def __init__(self, size: int, page_size: int, **kwargs: Any) -> None:
        super().__init__(size, page_size, **kwargs)
        self.size += page_size


@mutant("alloc.size", serves=SWAAllocatorRequest, build=paired)
class SizesByTheFullSide(SWAPairAllocator):
    @property
    def size(self) -> int:
        return self.size_full


@mutant("traits.replication", serves=MLALeafRequest)
class ShardsLatentRows(MLALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_traits = replace(self.pool_traits, replication="tp_sharded")


@mutant("traits.index", source="sgl-project/sglang#23539", serves=DSALeafRequest)
class HidesItsIndexKeys(DSALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_traits = replace(self.pool_traits, state_index_space="none")


@mutant("traits.read-door", serves=MHALeafRequest)
class ReadsThroughACopy(MHALeaf):
    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        return super().get_key_buffer(layer_id).clone()


@mutant("transfer.order", serves=MHALeafRequest)
class PairsKeysWithValues(MHALeaf):
    def get_contiguous_buf_infos(self) -> Infos:
        infos = super().get_contiguous_buf_infos()
        count = self.layer_num
        turns = [side * count + layer for layer in range(count) for side in range(2)]
        pointers, lengths, items = ([part[i] for i in turns] for part in infos)
        return pointers, lengths, items


@mutant("transfer.mem-pool", serves=MHALeafRequest)
class LacksItsMemoryPool(MHALeaf):
    def maybe_get_custom_mem_pool(self) -> object | None:
        found: object = cast("Any", self).custom_mem_pool
        return found


@mutant("fp8.scale-of-one-side", serves=MHALeafRequest)
class ScalesBothOrNeither(MHALeaf):
    def set_kv_buffer(
        self,
        layer: Any,
        loc_info: Any,
        cache_k: Any,
        cache_v: Any,
        k_scale: Any = None,
        v_scale: Any = None,
        layer_id_override: int | None = None,
    ) -> None:
        both = k_scale is not None and v_scale is not None
        k_scale, v_scale = (scale if both else None for scale in (k_scale, v_scale))
        super().set_kv_buffer(
            layer, loc_info, cache_k, cache_v, k_scale, v_scale, layer_id_override
        )


@composite("swa.mapping-unset")
class StartsWithATableOfZeros(SWAPool):
    def spoil(self) -> None:
        size = self.size + self.page_size + 1
        self.register_mapping(torch.zeros(size, dtype=torch.int64))


@composite("composite.stage")
class StartsAtLayerZero(CompositePool):
    def spoil(self) -> None:
        self.start_layer = 0


@composite("composite.regions", source="sgl-project/sglang#36331")
class NamesLeafLayersInRegions(CompositePool):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        regions = cast("Any", super()).buffer_regions()
        return tuple(
            replace(region, layer_ids=tuple(range(len(region.layer_ids)))) for region in regions
        )


@composite("composite.size")
class CountsItsFirstLeafOnly(CompositePool):
    def get_kv_size_bytes(self) -> tuple[int, int] | int:
        size: tuple[int, int] | int = cast("Any", self.lead).get_kv_size_bytes()
        return size


@composite("composite.replication")
class ShardsWhateverItHolds(CompositePool):
    @property
    def pool_traits(self) -> PoolTraits:
        told: PoolTraits = cast("Any", super()).pool_traits
        return replace(told, replication="tp_sharded")
