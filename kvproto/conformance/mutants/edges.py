"""Pools, state and accounts that are right until a call comes to the edge of its contract."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# They are wrong on purpose.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from kvproto.protocols import (
    AllocatorRequest,
    DSALeafRequest,
    RequestPoolRequest,
    StatePoolRequest,
    SWAAllocatorRequest,
)
from kvproto.reference import (
    DSALeaf,
    HybridLinearPool,
    PageAllocator,
    RecurrentStatePool,
    ReqToToken,
)
from kvproto.reference.swa_allocator import SWAPairAllocator

from .account_builders import alone, paired, rows
from .composite_builders import composite
from .registry import mutant


@mutant("state.negative-slots", source="sgl-project/sglang#38519", serves=StatePoolRequest)
class ClearsTheLastSlot(RecurrentStatePool):
    def clear_slots(self, indices: Tensor, /) -> None:
        super().clear_slots(torch.where(indices < 0, indices + self.size + 1, indices))


@mutant("state.layer-range", source="sgl-project/sglang#22605", serves=StatePoolRequest)
class CountsLayersFromTheEnd(RecurrentStatePool):
    def mamba2_layer_cache(self, layer_id: int, /) -> Any:
        return super().mamba2_layer_cache(layer_id % len(self.mamba_layer_ids))


@mutant("request.named-twice", serves=RequestPoolRequest, build=rows)
class TakesARowForEachName(ReqToToken):
    def alloc(self, reqs: Sequence[Any], /) -> list[int] | None:
        given = super().alloc(reqs)
        if given is not None and len(given) != len({id(req) for req in reqs}):
            self._free_rows.pop()
        return given


@mutant("alloc.part-of-a-page", serves=AllocatorRequest, build=alone)
class RoundsDown(PageAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        return super().alloc(need_size - need_size % self.page_size)


@mutant("alloc.part-of-a-page", serves=AllocatorRequest, build=alone)
class LendsAllButANegativeNeed(PageAllocator):
    def alloc(self, need_size: int, /) -> Tensor | None:
        # What `free_pages[:need]` gives for a need below 0.
        return super().alloc(need_size if need_size >= 0 else self.available_size() + need_size)


@mutant("alloc.part-of-a-page", serves=AllocatorRequest, build=alone)
class RoundsDownOnce(PageAllocator):
    _warned = False

    def alloc(self, need_size: int, /) -> Tensor | None:
        part = need_size % self.page_size
        if part and self._warned:
            raise ValueError(f"need_size={need_size}: give whole pages")
        self._warned = self._warned or part > 0
        return super().alloc(need_size - part)


@mutant("swa-alloc.free-full", serves=SWAAllocatorRequest, build=paired)
class LosesPeersThatAreLeft(SWAPairAllocator):
    def free_full(self, free_index: Tensor, /) -> None:
        self._mapping.unpair(free_index.to(torch.int64))
        self.full_attn_allocator.free(free_index)


@mutant("mla.packed-zeros", serves=DSALeafRequest)
class StoresZerosAsTheSmallestNumber(DSALeaf):
    def set_mla_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k_nope: Tensor, cache_k_rope: Tensor, **named: Any
    ) -> None:
        super().set_mla_kv_buffer(layer, loc_info, cache_k_nope, cache_k_rope, **named)
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        written = self.kv_buffer[self._layers.local(layer.layer_id)].view(torch.uint8)
        none = (cache_k_nope.flatten(1) == 0).all(1) & (loc > 0)
        if self.kv_cache_dim > self.kv_lora_rank + self.qk_rope_head_dim:
            written[loc[none].long(), 0, : self.kv_lora_rank] = 0xFE


@composite("hybrid.full-loc-parts")
class PassesTheObjectOn(HybridLinearPool):
    def set_mla_kv_buffer(self, layer: Any, loc_info: Any, *parts: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        cast("Any", super()).set_mla_kv_buffer(layer, loc, *parts, **named)


@composite("hybrid.host-copy-whole", source="sgl-project/sglang#22493")
class RestoresHalfARequest(HybridLinearPool):
    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        mamba_indices: Any = None,
        req_pool_index: Any = None,
    ) -> None:
        if mamba_indices is None:
            cast("Any", self.full_kv_pool).load_cpu_copy(kv_cache_cpu.tokens, indices)
        else:
            cast("Any", super()).load_cpu_copy(kv_cache_cpu, indices, mamba_indices)
