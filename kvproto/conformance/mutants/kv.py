"""Pools of K and V rows, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import move_rows, to_fp8, to_stored
from kvproto.protocols import MHALeafRequest, PoolTraits
from kvproto.reference import MHALeaf

from .registry import mutant


@mutant("write.dcp-mask", serves=MHALeafRequest)
class StoresMaskedRows(MHALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, *rows: Any, dcp_kv_mask: Any = None, **named: Any
    ) -> None:
        super().set_kv_buffer(layer, loc_info, *rows, **named)


@mutant("write.dcp-mask", source="sgl-project/sglang#36751", serves=MHALeafRequest)
class ChoosesRowsByTheMask(MHALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, *rows: Any, dcp_kv_mask: Any = None, **named: Any
    ) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        if dcp_kv_mask is not None:
            loc, rows = loc[dcp_kv_mask], tuple(each[dcp_kv_mask] for each in rows)
        super().set_kv_buffer(layer, loc, *rows, **named)


@mutant("leaf.whole-pages", source="sgl-project/sglang#22384", serves=MHALeafRequest)
class CountsSlotZero(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.size += 1


@mutant("declaration.half-offered", serves=MHALeafRequest)
class HalfOffered(MHALeaf):
    def get_state_dim_per_tensor(self) -> list[int]:
        return []


@mutant("leaf.layers-owned", source="sgl-project/sglang#30340", serves=MHALeafRequest)
class ForgetsStartLayer(MHALeaf):
    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        return self.k_buffer[layer_id]


@mutant("leaf.layers-foreign", source="sgl-project/sglang#22605", serves=MHALeafRequest)
class WrapsBelowStart(MHALeaf):
    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        return self.k_buffer[layer_id - self.start_layer].view(self.dtype)


@mutant("leaf.write-read", serves=MHALeafRequest)
class SwapsRows(MHALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, *options: Any, **named: Any
    ) -> None:
        super().set_kv_buffer(layer, loc_info, cache_k.flip(0), cache_v, *options, **named)


@mutant("leaf.read-doors", serves=MHALeafRequest)
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
        k = self._rows(cache_k, loc, self.head_dim, "cache_k")
        v = self._rows(cache_v, loc, self.v_head_dim, "cache_v")
        self.k_buffer[local][index] = to_stored(k, self.dtype)
        self.v_buffer[local][index] = to_stored(v, self.dtype)


@mutant("leaf.slot-zero", source="sgl-project/sglang#36207", serves=MHALeafRequest)
class WritesSlotZero(_Unguarded):
    pass


@mutant("leaf.negative-loc", source="lightseekorg/tokenspeed#709", serves=MHALeafRequest)
class WrapsNegativeLocations(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        wrapped = torch.where(loc == -1, self.size + self.page_size - 1, loc)
        super().set_kv_buffer(layer, wrapped, *rows, **named)


@mutant("leaf.out-of-range", source="alibaba/rtp-llm#1256", serves=MHALeafRequest)
class DropsOutOfRange(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        kept = torch.where(loc < self.size + self.page_size, loc, 0)
        super().set_kv_buffer(layer, kept, *rows, **named)


@mutant("leaf.empty-and-duplicates", serves=MHALeafRequest)
class AveragesDuplicates(MHALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, *options: Any, **named: Any
    ) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        if len(loc) > 1 and bool((loc == loc[0]).all()):
            cache_k = cache_k.float().mean(0, keepdim=True).expand_as(cache_k)
        super().set_kv_buffer(layer, loc, cache_k, cache_v, *options, **named)


@mutant("leaf.strided-input", source="sgl-project/sglang#38178", serves=MHALeafRequest)
class ReinterpretsStrides(MHALeaf):
    def _rows(self, given: Tensor, *rest: Any) -> Tensor:
        dense = given if given.is_contiguous() else given.as_strided(given.shape, _dense(given))
        return super()._rows(dense, *rest)


@mutant("leaf.input-unmodified", source="sgl-project/sglang#18818", serves=MHALeafRequest)
class DividesInPlace(MHALeaf):
    def _rows(self, given: Tensor, *rest: Any) -> Tensor:
        return super()._rows(given.mul_(2).div_(4), *rest)


@mutant("leaf.row-width", source="sgl-project/sglang#39058", serves=MHALeafRequest)
class CutsWideRows(MHALeaf):
    def _rows(self, given: Tensor, loc: Tensor, width: int, *rest: Any) -> Tensor:
        return super()._rows(given[..., :width], loc, width, *rest)


@mutant("leaf.geometry", source="sgl-project/sglang#25476", serves=MHALeafRequest)
class InclusiveEndLayer(MHALeaf):
    @property
    def end_layer(self) -> int:
        return super().end_layer - 1


@mutant("leaf.write-location-object", serves=MHALeafRequest)
class WantsATensor(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        super().set_kv_buffer(layer, loc_info[:], *rows, **named)


@mutant("leaf.layer-transfer-wait", serves=MHALeafRequest)
class NeverWaits(MHALeaf):
    def register_layer_transfer_counter(self, layer_transfer_counter: Any, /) -> None:
        pass


@mutant("sync-free.write", source="sgl-project/sglang#36751", serves=MHALeafRequest)
class SyncsInWrite(MHALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, *options: Any, **named: Any
    ) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        kept = (loc > 0) | (loc >= self.size)
        super().set_kv_buffer(layer, loc[kept], cache_k[kept], cache_v[kept], *options, **named)


@mutant("sync-free.write", serves=MHALeafRequest)
class ListsLocations(MHALeaf):
    """Reads host memory without an operation; of a device's it would wait."""

    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc: Any = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        slots: list[int] = loc.tolist()
        if any(slot >= 0 for slot in slots):
            super().set_kv_buffer(layer, loc_info, *rows, **named)


@mutant("sync-free.move", source="sgl-project/sglang#36751", serves=MHALeafRequest)
class SyncsInMove(MHALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        if len(tgt_loc) and int(tgt_loc.max()) >= 0:
            super().move_kv_cache(tgt_loc, src_loc)


@mutant("transfer.item-len", source="sgl-project/sglang#26490", serves=MHALeafRequest)
class TokenItems(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers, lengths, [item // self.page_size for item in items]


@mutant("transfer.lists", serves=MHALeafRequest)
class RaggedLists(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers, lengths, items[1:]


@mutant("transfer.complete", source="sgl-project/sglang#23539", serves=MHALeafRequest)
class HidesABuffer(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.index_rows = torch.zeros(self.size + self.page_size, 4)


@mutant("transfer.no-layers", serves=MHALeafRequest)
class ExportsWithoutLayers(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        return super().get_contiguous_buf_infos() if self.layer_num else ([64], [64], [64])


@mutant("transfer.layer-ids", source="sgl-project/sglang#36331", serves=MHALeafRequest)
class LocalLayerIds(MHALeaf):
    def get_kv_layer_ids(self) -> list[int]:
        return [i - self.start_layer for i in super().get_kv_layer_ids()]


@mutant("transfer.regions", serves=MHALeafRequest)
class OtherOrder(MHALeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers[::-1], lengths[::-1], items[::-1]


@mutant("move.overlap", source="sgl-project/sglang#31215", serves=MHALeafRequest)
class MovesInOrder(MHALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        for tgt, src in zip(map(int, tgt_loc), map(int, src_loc), strict=True):
            for buffer in (*self.k_buffer, *self.v_buffer):
                move_rows(buffer, torch.tensor([tgt]), torch.tensor([src]))


@mutant("move.slot-zero", source="sgl-project/sglang#31215", serves=MHALeafRequest)
class MovesToSlotZero(MHALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        for buffer in (*self.k_buffer, *self.v_buffer):
            buffer[tgt_loc.clamp(min=0)] = buffer[src_loc]


@mutant("host-copy.round-trip", source="sgl-project/sglang#36121", serves=MHALeafRequest)
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


@mutant("size.bytes", source="sgl-project/sglang#5161", serves=MHALeafRequest)
class CountsElements(MHALeaf):
    def get_kv_size_bytes(self) -> tuple[int, int]:
        return sum(b.numel() for b in self.k_buffer), sum(b.numel() - 1 for b in self.v_buffer)


@mutant("write.layer-override", serves=MHALeafRequest)
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


@mutant("mha.geometry", source="sgl-project/sglang#23173", serves=MHALeafRequest)
class ReportsKeyWidthForValues(MHALeaf):
    def get_v_head_dim(self) -> int:
        return self.head_dim


@mutant("traits.request", serves=MHALeafRequest)
class ClaimsAnotherKind(MHALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_traits = PoolTraits(kind="mla", layout="latent_rows")


@mutant("fp8.variant", source="vllm-project/vllm#45720", serves=MHALeafRequest)
class OtherVariant(MHALeaf):
    def _rows(self, given: Tensor, *rest: Any) -> Tensor:
        rows = super()._rows(given, *rest)
        if self.dtype == torch.float8_e4m3fnuz:
            return to_fp8(rows, torch.float8_e4m3fn).view(self.dtype).float()
        return rows


@mutant("fp8.saturates", source="alibaba/rtp-llm#1256", serves=MHALeafRequest)
class CastsWithoutClamp(MHALeaf):
    def _rows(self, given: Tensor, *rest: Any) -> Tensor:
        rows = super()._rows(given, *rest)
        return rows.float().to(self.dtype).float() if self.dtype.itemsize == 1 else rows


@mutant("fp8.scales", source="sgl-project/sglang#26852", serves=MHALeafRequest)
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


@mutant("fp8.scales-refused", serves=MHALeafRequest)
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
