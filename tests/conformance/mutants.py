"""One small fault per law: pools that are right but for it, so that the law is seen to bite."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import move_rows, to_fp8
from kvproto.protocols import Declined, LeafRequest, MHALeafRequest, PoolTraits
from kvproto.reference import MHALeaf

__all__ = ["MUTANTS", "factory_of"]


class HalfOffered(MHALeaf):
    def get_state_dim_per_tensor(self) -> list[int]:
        return []


class ForgetsStartLayer(MHALeaf):
    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        return self.k_buffer[layer_id]


class WrapsBelowStart(MHALeaf):
    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        return self.k_buffer[layer_id - self.start_layer].view(self.dtype)


class SwapsRows(MHALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, *options: Any, **named: Any
    ) -> None:
        super().set_kv_buffer(layer, loc_info, cache_k.flip(0), cache_v, *options, **named)


class SharesReadDoors(MHALeaf):
    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        return self.get_key_buffer(layer_id), self.get_key_buffer(layer_id)


class _Unguarded(MHALeaf):
    """Writes with plain indexing; subclasses put one guard wrong."""

    def _place(self, loc: Tensor) -> Tensor:
        return loc.clamp(min=0)

    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, *options: Any, **named: Any
    ) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        local = self._layers.local(layer.layer_id)
        index = self._place(loc).long()
        k = self._rows(cache_k, loc, self.head_dim, None, "cache_k")
        v = self._rows(cache_v, loc, self.v_head_dim, None, "cache_v")
        self.k_buffer[local][index] = k
        self.v_buffer[local][index] = v


class WritesSlotZero(_Unguarded):
    pass


class WrapsNegativeLocations(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        wrapped = torch.where(loc == -1, self.size + self.page_size - 1, loc)
        super().set_kv_buffer(layer, wrapped, *rows, **named)


class DropsOutOfRange(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        kept = torch.where(loc < self.size + self.page_size, loc, 0)
        super().set_kv_buffer(layer, kept, *rows, **named)


class AveragesDuplicates(MHALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, *options: Any, **named: Any
    ) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        if len(loc) > 1 and bool((loc == loc[0]).all()):
            cache_k = cache_k.float().mean(0, keepdim=True).expand_as(cache_k)
        super().set_kv_buffer(layer, loc, cache_k, cache_v, *options, **named)


class ReinterpretsStrides(MHALeaf):
    def _rows(self, given: Tensor, *rest: Any) -> Tensor:
        dense = given if given.is_contiguous() else given.as_strided(given.shape, _dense(given))
        return super()._rows(dense, *rest)


class DividesInPlace(MHALeaf):
    def _rows(self, given: Tensor, *rest: Any) -> Tensor:
        return super()._rows(given.mul_(2).div_(4), *rest)


class CutsWideRows(MHALeaf):
    def _rows(self, given: Tensor, loc: Tensor, width: int, *rest: Any) -> Tensor:
        return super()._rows(given[..., :width], loc, width, *rest)


class InclusiveEndLayer(MHALeaf):
    @property
    def end_layer(self) -> int:
        return super().end_layer - 1


class WantsATensor(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        super().set_kv_buffer(layer, loc_info[:], *rows, **named)


class NeverWaits(MHALeaf):
    def register_layer_transfer_counter(self, layer_transfer_counter: Any, /) -> None:
        pass


class SyncsInWrite(MHALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, *options: Any, **named: Any
    ) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        kept = (loc > 0) | (loc >= self.size)
        super().set_kv_buffer(layer, loc[kept], cache_k[kept], cache_v[kept], *options, **named)


class SyncsInMove(MHALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        if len(tgt_loc) and int(tgt_loc.max()) >= 0:
            super().move_kv_cache(tgt_loc, src_loc)


class TokenItems(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers, lengths, [item // self.page_size for item in items]


class RaggedLists(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers, lengths, items[1:]


class HidesABuffer(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.index_rows = torch.zeros(self.size + self.page_size, 4)


class ExportsWithoutLayers(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        return super().get_contiguous_buf_infos() if self.layer_num else ([64], [64], [64])


class LocalLayerIds(MHALeaf):
    def get_kv_layer_ids(self) -> list[int]:
        return [i - self.start_layer for i in super().get_kv_layer_ids()]


class OtherOrder(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers[::-1], lengths[::-1], items[::-1]


class MovesInOrder(MHALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        for tgt, src in zip(tgt_loc.tolist(), src_loc.tolist(), strict=True):
            for buffer in (*self.k_buffer, *self.v_buffer):
                move_rows(buffer, torch.tensor([tgt]), torch.tensor([src]))


class MovesToSlotZero(MHALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        for buffer in (*self.k_buffer, *self.v_buffer):
            buffer[tgt_loc.clamp(min=0)] = buffer[src_loc]


class CopiesKeysOnly(MHALeaf):
    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        mamba_indices: Any = None,
        req_pool_index: Any = None,
    ) -> None:
        kept = [b.clone() for b in self.v_buffer]
        super().load_cpu_copy(kv_cache_cpu, indices)
        for buffer, old in zip(self.v_buffer, kept, strict=True):
            buffer.copy_(old)


class CountsElements(MHALeaf):
    def get_kv_size_bytes(self) -> tuple[int, int]:
        return sum(b.numel() for b in self.k_buffer), sum(b.numel() - 1 for b in self.v_buffer)


class IgnoresTheOverride(MHALeaf):
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
        override = self.start_layer if layer is None else None
        super().set_kv_buffer(layer, loc_info, cache_k, cache_v, k_scale, v_scale, override)


class ReportsKeyWidthForValues(MHALeaf):
    def get_v_head_dim(self) -> int:
        return self.head_dim


class ClaimsAnotherKind(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_traits = PoolTraits(kind="mla", layout="latent_rows")


class OtherVariant(MHALeaf):
    def _rows(self, given: Tensor, loc: Tensor, width: int, scale: Any, name: str) -> Tensor:
        stored = super()._rows(given, loc, width, scale, name)
        if self.dtype == torch.float8_e4m3fnuz:
            other = to_fp8(given.reshape(stored.shape), torch.float8_e4m3fn, scale)
            return other.view(torch.uint8)
        return stored


class CastsWithoutClamp(MHALeaf):
    def _rows(self, given: Tensor, loc: Tensor, width: int, scale: Any, name: str) -> Tensor:
        stored = super()._rows(given, loc, width, scale, name)
        if self.dtype.itemsize == 1:
            return given.reshape(stored.shape).float().to(self.dtype).view(torch.uint8)
        return stored


class OneScaleForBoth(MHALeaf):
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
        super().set_kv_buffer(
            layer, loc_info, cache_k, cache_v, k_scale, k_scale, layer_id_override
        )


class TakesAnyScale(MHALeaf):
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
        k_scale, v_scale = (s if s is None or float(s) > 0 else None for s in (k_scale, v_scale))
        super().set_kv_buffer(
            layer, loc_info, cache_k, cache_v, k_scale, v_scale, layer_id_override
        )


def _dense(given: Tensor) -> tuple[int, ...]:
    return torch.empty(given.shape, device="meta").stride()


MUTANTS: dict[str, type[MHALeaf]] = {
    "declaration.half-offered": HalfOffered,
    "leaf.layers-owned": ForgetsStartLayer,
    "leaf.layers-foreign": WrapsBelowStart,
    "leaf.write-read": SwapsRows,
    "leaf.read-doors": SharesReadDoors,
    "leaf.slot-zero": WritesSlotZero,
    "leaf.negative-loc": WrapsNegativeLocations,
    "leaf.out-of-range": DropsOutOfRange,
    "leaf.empty-and-duplicates": AveragesDuplicates,
    "leaf.strided-input": ReinterpretsStrides,
    "leaf.input-unmodified": DividesInPlace,
    "leaf.row-width": CutsWideRows,
    "leaf.geometry": InclusiveEndLayer,
    "leaf.write-location-object": WantsATensor,
    "leaf.layer-transfer-wait": NeverWaits,
    "sync-free.write": SyncsInWrite,
    "sync-free.move": SyncsInMove,
    "transfer.lists": RaggedLists,
    "transfer.item-len": TokenItems,
    "transfer.complete": HidesABuffer,
    "transfer.no-layers": ExportsWithoutLayers,
    "transfer.layer-ids": LocalLayerIds,
    "transfer.regions": OtherOrder,
    "move.overlap": MovesInOrder,
    "move.slot-zero": MovesToSlotZero,
    "host-copy.round-trip": CopiesKeysOnly,
    "size.bytes": CountsElements,
    "write.layer-override": IgnoresTheOverride,
    "mha.geometry": ReportsKeyWidthForValues,
    "traits.request": ClaimsAnotherKind,
    "fp8.variant": OtherVariant,
    "fp8.saturates": CastsWithoutClamp,
    "fp8.scales": OneScaleForBoth,
    "fp8.scales-refused": TakesAnyScale,
}
"""The law that must name the fault, and the pool that has it."""


def factory_of(cls: type[MHALeaf]) -> Any:
    """What a vendor of that class would hand to the kit."""

    def build(request: LeafRequest) -> Any:
        if not isinstance(request, MHALeafRequest):
            return Declined("K and V rows only")
        return cls(**request.keywords())

    return build
