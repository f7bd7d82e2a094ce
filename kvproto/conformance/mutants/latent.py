"""Leaves of latent rows and index keys, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import gather_index_keys, store_index_keys, store_rows
from kvproto.protocols import (
    Axis,
    BufferRegion,
    DSALeafRequest,
    Field,
    MHALeafRequest,
    MLALeafRequest,
    Tile,
    row_major,
)
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf

from .registry import mutant

Infos = tuple[list[int], list[int], list[int]]


@mutant("mla.geometry", source="sgl-project/sglang#37534", serves=DSALeafRequest)
class ReportsTheNominalRow(DSALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kv_cache_dim = self.kv_lora_rank + self.qk_rope_head_dim


@mutant("mla.rows", serves=MLALeafRequest)
class HasNoReservedPage(MLALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kv_buffer = [buffer[self.page_size :] for buffer in self.kv_buffer]


class _OwnSplitWriter(MLALeaf):
    """Writes the two parts by plain indexing; subclasses put one thing wrong."""

    def _local(self, layer_id: int) -> int:
        return self._layers.local(layer_id)

    def set_mla_kv_buffer(
        self,
        layer: Any,
        loc_info: Any,
        cache_k_nope: Tensor,
        cache_k_rope: Tensor,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        buffer = self.kv_buffer[self._local(layer.layer_id)].view(self.dtype)
        row = torch.cat([cache_k_nope.flatten(1), cache_k_rope.flatten(1)], dim=-1)
        self._put(buffer, loc_info.long(), row.to(self.dtype).unsqueeze(1))

    def _put(self, buffer: Tensor, loc: Tensor, rows: Tensor) -> None:
        store_rows(buffer.view(torch.uint8), loc, rows.view(torch.uint8))


@mutant("mla.split-write", serves=MLALeafRequest)
class SplitWriterForgetsStartLayer(_OwnSplitWriter):
    def _local(self, layer_id: int) -> int:
        return layer_id % len(self.kv_buffer)


@mutant("mla.split-same", source="alibaba/rtp-llm#1256", serves=MLALeafRequest)
class SplitWriterCastsWithoutClamp(_OwnSplitWriter):
    pass


@mutant("mla.split-guards", source="sgl-project/sglang#36207", serves=MLALeafRequest)
class SplitWriterWritesSlotZero(_OwnSplitWriter):
    def _put(self, buffer: Tensor, loc: Tensor, rows: Tensor) -> None:
        buffer[loc.clamp(min=0)] = rows


@mutant("mla.split-guards", source="lightseekorg/tokenspeed#709", serves=MLALeafRequest)
class SplitWriterWrapsNegatives(_OwnSplitWriter):
    def _put(self, buffer: Tensor, loc: Tensor, rows: Tensor) -> None:
        super()._put(buffer, torch.where(loc < 0, loc + len(buffer), loc), rows)


@mutant("mla.split-refuses", serves=MLALeafRequest)
class SplitWriterCutsWideParts(MLALeaf):
    def set_mla_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k_nope: Tensor, cache_k_rope: Tensor, **named: Any
    ) -> None:
        rope = cache_k_rope[..., : self.qk_rope_head_dim]
        super().set_mla_kv_buffer(layer, loc_info, cache_k_nope, rope, **named)


@mutant("mla.split-strided", source="sgl-project/sglang#38178", serves=MLALeafRequest)
class SplitWriterReinterpretsStrides(MLALeaf):
    def set_mla_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k_nope: Tensor, cache_k_rope: Tensor, **named: Any
    ) -> None:
        parts = map(_as_if_dense, (cache_k_nope, cache_k_rope))
        super().set_mla_kv_buffer(layer, loc_info, *parts, **named)


@mutant("mla.split-read", source="lightseekorg/tokenspeed#709", serves=MLALeafRequest)
class ReadsTheEndForNegatives(MLALeaf):
    def get_mla_kv_buffer(
        self, layer: Any, loc: Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        wrapped = torch.where(loc < 0, loc + self.size + self.page_size, loc)
        return super().get_mla_kv_buffer(layer, wrapped, dst_dtype)


@mutant("mla.split-read", serves=DSALeafRequest)
class ReadsPackedRowsAsFp8(DSALeaf):
    def get_mla_kv_buffer(
        self, layer: Any, loc: Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        return super().get_mla_kv_buffer(layer, loc, dst_dtype or self.dtype)


@mutant("mla.value-is-prefix", serves=MLALeafRequest)
class CopiesValues(MLALeaf):
    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        return super().get_value_buffer(layer_id).contiguous()


@mutant("mla.value-unused", serves=MLALeafRequest)
class TakesTheLatentFromTheValue(MLALeaf):
    def set_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k: Tensor, cache_v: Any, **named: Any
    ) -> None:
        rows = torch.cat([cache_v, cache_k[..., self.kv_lora_rank :]], dim=-1)
        super().set_kv_buffer(layer, loc_info, rows, cache_v, **named)


@mutant("mla.packed-blocks", source="ormandj/sglang-glm53-flash-sm120#2", serves=DSALeafRequest)
class KeepsOneScaleARow(DSALeaf):
    def set_mla_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k_nope: Tensor, cache_k_rope: Tensor, **named: Any
    ) -> None:
        super().set_mla_kv_buffer(layer, loc_info, cache_k_nope, cache_k_rope, **named)
        first = self.kv_lora_rank
        rows = self.kv_buffer[self._layers.local(layer.layer_id)]
        for at in range(first + 4, self.kv_cache_dim - 2 * self.qk_rope_head_dim, 4):
            rows[..., at : at + 4] = rows[..., first : first + 4]


@mutant("mla.read-waits", serves=MLALeafRequest)
class ReadsPartsUnfenced(MLALeaf):
    def get_mla_kv_buffer(
        self, layer: Any, loc: Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        counter, self._counter = self._counter, None
        try:
            return super().get_mla_kv_buffer(layer, loc, dst_dtype)
        finally:
            self._counter = counter


@mutant("indexer.layers", source="sgl-project/sglang#30340", serves=DSALeafRequest)
class IndexForgetsStartLayer(DSALeaf):
    def get_index_k_with_scale_buffer(self, layer_id: int) -> Tensor:
        return self.index_k_with_scale_buffer[layer_id - self.start_layer]


@mutant("indexer.write-read", source="sgl-project/sglang#31215", serves=DSALeafRequest)
class WritesKeysIntoTheFirstPage(DSALeaf):
    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        super().set_index_k_scale_buffer(layer_id, loc % self.page_size, index_k, index_k_scale)


@mutant("indexer.page-layout", serves=DSALeafRequest)
class KeepsEachScaleBesideItsKey(DSALeaf):
    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        parts = (index_k.view(torch.uint8), index_k_scale.view(-1, 1).view(torch.uint8))
        rows = torch.cat(parts, dim=1)
        pages = self.index_k_with_scale_buffer[self._layers.local(layer_id)]
        store_rows(pages.view(-1, rows.shape[1]), loc, rows)


@mutant("indexer.inputs", source="sgl-project/sglang#38178", serves=DSALeafRequest)
class IndexReinterpretsStrides(DSALeaf):
    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        super().set_index_k_scale_buffer(layer_id, loc, _as_if_dense(index_k), index_k_scale)


@mutant("indexer.guards", source="sgl-project/sglang#36207", serves=DSALeafRequest)
class IndexWritesSlotZero(DSALeaf):
    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        super().set_index_k_scale_buffer(layer_id, loc, index_k, index_k_scale)
        pages = self.index_k_with_scale_buffer[self._layers.local(layer_id)]
        for key in index_k[loc == 0]:
            pages[0, : self.index_head_dim] = key.view(torch.uint8)


@mutant("indexer.refuses", source="alibaba/rtp-llm#1256", serves=DSALeafRequest)
class IndexDropsOutOfRange(DSALeaf):
    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        kept = torch.where(loc < self.size + self.page_size, loc, 0)
        super().set_index_k_scale_buffer(layer_id, kept, index_k, index_k_scale)


@mutant("indexer.gather", source="lightseekorg/tokenspeed#709", serves=DSALeafRequest)
class LooksUpTableTails(DSALeaf):
    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: Tensor,
        page_indices: Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[Tensor, Tensor]:
        pages = self.get_index_k_with_scale_buffer(layer_id)[page_indices.long()].flatten(0, 1)
        own = torch.arange(page_indices.numel()).view(page_indices.shape)
        return gather_index_keys(
            pages, seq_len_tensor, own, seq_len_sum, self.index_page_size, self.index_head_dim
        )


@mutant("indexer.move", source="sgl-project/sglang#31215", serves=DSALeafRequest)
class MovesIndexPages(DSALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        MLALeaf.move_kv_cache(self, tgt_loc, src_loc)
        for pages in self._indexed():
            last = len(pages) - 1
            store_rows(pages, tgt_loc.clamp(max=last), pages[src_loc.long().clamp(max=last)])


@mutant("indexer.move", source="sgl-project/sglang#31215", serves=DSALeafRequest)
class LeavesIndexKeysBehind(DSALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        MLALeaf.move_kv_cache(self, tgt_loc, src_loc)


@mutant("indexer.shared-layers", serves=DSALeafRequest)
class AnswersForSharedLayers(DSALeaf):
    def _pages_with_keys(self, local: int, layer_id: int) -> Tensor:
        owners = [i for i, skip in enumerate(self.skip_topk_layers[: local + 1]) if not skip]
        return self.index_k_with_scale_buffer[owners[-1] if owners else local]


@mutant("indexer.host-copy", source="sgl-project/sglang#38212", serves=DSALeafRequest)
class CopiesNoIndexKeys(DSALeaf):
    get_cpu_copy = MLALeaf.get_cpu_copy
    load_cpu_copy = MLALeaf.load_cpu_copy


@mutant("indexer.read-waits", serves=DSALeafRequest)
class ReadsIndexKeysUnfenced(DSALeaf):
    def get_index_k_with_scale_buffer(self, layer_id: int) -> Tensor:
        return self.index_k_with_scale_buffer[self._layers.local(layer_id)]


@mutant("sync-free.latent", source="sgl-project/sglang#36751", serves=MLALeafRequest)
class SyncsInSplitWrite(MLALeaf):
    def set_mla_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k_nope: Tensor, cache_k_rope: Tensor, **named: Any
    ) -> None:
        kept = loc_info > 0
        parts = (loc_info[kept], cache_k_nope[kept], cache_k_rope[kept])
        super().set_mla_kv_buffer(layer, *parts, **named)


@mutant("sync-free.indexer", source="sgl-project/sglang#36751", serves=DSALeafRequest)
class SyncsInGather(DSALeaf):
    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: Tensor,
        page_indices: Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[Tensor, Tensor]:
        return gather_index_keys(
            self.get_index_k_with_scale_buffer(layer_id),
            seq_len_tensor,
            page_indices,
            int(seq_len_tensor.sum()),
            self.index_page_size,
            self.index_head_dim,
        )


@mutant("state-transfer.lists", source="sgl-project/sglang#23539", serves=DSALeafRequest)
class LeavesSharedLayersOut(DSALeaf):
    def get_state_buf_infos(self) -> Infos:
        owners = [i for i, skip in enumerate(self.skip_topk_layers) if not skip]
        pointers, lengths, items = (
            [part[i] for i in owners] for part in super().get_state_buf_infos()
        )
        return pointers, lengths, items


@mutant("state-transfer.item-len", source="taco-project/FlexKV#274", serves=DSALeafRequest)
class MultipliesPagesAgain(DSALeaf):
    def get_state_buf_infos(self) -> Infos:
        pointers, lengths, items = super().get_state_buf_infos()
        return pointers, lengths, [item * self.page_size for item in items]


@mutant("state-transfer.item-len", source="sgl-project/sglang#26490", serves=DSALeafRequest)
class TokenIndexItems(DSALeaf):
    def get_state_buf_infos(self) -> Infos:
        pointers, lengths, items = super().get_state_buf_infos()
        return pointers, lengths, [item // self.page_size for item in items]


@mutant("state-transfer.complete", source="sgl-project/sglang#23539", serves=DSALeafRequest)
class ExportsOneLayersIndexKeys(DSALeaf):
    def get_state_buf_infos(self) -> Infos:
        pointers, lengths, items = super().get_state_buf_infos()
        return pointers[:1] * len(pointers), lengths, items


@mutant("state-transfer.complete", serves=DSALeafRequest)
class ExportsIndexKeysTwice(DSALeaf):
    def get_contiguous_buf_infos(self) -> Infos:
        tables = zip(super().get_contiguous_buf_infos(), self.get_state_buf_infos(), strict=True)
        pointers, lengths, items = (rows + index for rows, index in tables)
        return pointers, lengths, items


@mutant("transfer.complete", source="kvcache-ai/Mooncake#2236", serves=DSALeafRequest)
class ExportsNoIndexKeys(DSALeaf):
    def get_state_buf_infos(self) -> Infos:
        return [], [], []


@mutant("transfer.regions", source="ROCm/ATOM#1368", serves=DSALeafRequest)
class DeclaresNoIndexRegion(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return self._row_regions()


@mutant("host-tier.geometry", source="sgl-project/sglang#37534", serves=DSALeafRequest)
class DeclaresNominalRows(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        rows, *rest = super().buffer_regions()
        width = (self.kv_lora_rank + self.qk_rope_head_dim) * self.dtype.itemsize
        axes = row_major("uint8", ("token", self.page_size), ("dim", width))
        nominal = replace(
            rows,
            fields=(Field("latent", "uint8", axes),),
            bytes_per_page=width * self.page_size,
            page_stride=0,
        )
        return nominal, *rest


@mutant("host-tier.fields", source="ormandj/sglang-glm53-flash-sm120#2", serves=DSALeafRequest)
class DeclaresNoScales(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(region, fields=tuple(f for f in region.fields if f.name != "scale"))
            for region in super().buffer_regions()
        )


@mutant("oracle.rows", serves=MHALeafRequest)
class DeclaresTheRowAfter(MHALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(region, bases=tuple(b + region.bytes_per_page for b in region.bases))
            for region in super().buffer_regions()
        )


@mutant("oracle.packed", source="sgl-project/sglang#37534", serves=DSALeafRequest)
class DeclaresRopeBeforeScales(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        rows, *rest = super().buffer_regions()
        offsets = {"rope": self.kv_lora_rank}
        offsets["scale"] = self.kv_lora_rank + 2 * self.qk_rope_head_dim
        moved = (replace(f, offset=offsets.get(f.name, 0)) for f in rows.fields)
        fields = tuple(moved) if len(rows.fields) == 3 else rows.fields
        return replace(rows, fields=fields), *rest


@mutant("oracle.index", source="sgl-project/sglang#31215", serves=DSALeafRequest)
class DeclaresScalesBesideKeys(DSALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        token = Axis("token", (Tile(self.page_size, self.index_head_dim + 4),))
        return tuple(
            replace(region, fields=tuple(self._beside(f, token) for f in region.fields))
            if region.fields[0].name == "index_key"
            else region
            for region in super().buffer_regions()
        )

    def _beside(self, field: Field, token: Axis) -> Field:
        offset = self.index_head_dim if field.name == "scale" else 0
        return replace(field, axes=(token, *field.axes[1:]), offset=offset)


@mutant("transfer.fingerprint", source="sgl-project/sglang#19398", serves=MLALeafRequest)
class DeclaresBytes(MLALeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(region, fields=(Field("latent", "uint8", _bytes_of(region)),))
            for region in super().buffer_regions()
        )


def _bytes_of(region: BufferRegion) -> Any:
    width = region.bytes_per_page // region.page_size
    return row_major("uint8", ("token", region.page_size), ("dim", width))


@mutant("leaf.wide-address", source="sgl-project/sglang#39948", serves=MHALeafRequest)
class OffsetsOf32Bits(MHALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        super().set_kv_buffer(layer, _multiplied_in_32_bits(loc, self.head_dim), *rows, **named)


@mutant("leaf.wide-address", source="lightseekorg/tokenspeed#501", serves=MLALeafRequest)
class LatentOffsetsOf32Bits(MLALeaf):
    def set_kv_buffer(self, layer: Any, loc_info: Any, *rows: Any, **named: Any) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        super().set_kv_buffer(layer, _multiplied_in_32_bits(loc, self.kv_cache_dim), *rows, **named)


@mutant("indexer.wide-address", source="sgl-project/sglang#39948", serves=DSALeafRequest)
class PageOffsetsOf32Bits(DSALeaf):
    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        pages = self.index_k_with_scale_buffer[self._layers.local(layer_id)]
        slots = _multiplied_in_32_bits(loc, self.index_head_dim + 4)
        raw = index_k.view(torch.uint8), index_k_scale.view(-1, 1).view(torch.uint8)
        store_index_keys(pages, slots, *raw)


@mutant("transfer.wide-address", source="sgl-project/sglang#39948", serves=MLALeafRequest)
class LengthsOf32Bits(MLALeaf):
    def get_contiguous_buf_infos(self) -> Any:
        pointers, lengths, items = super().get_contiguous_buf_infos()
        return pointers, lengths, list(torch.tensor(items, dtype=torch.int32))


@mutant("memory-saver.region", source="sgl-project/sglang#15246", serves=DSALeafRequest)
class AllocatesIndexKeysOutside(DSALeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        inside = self.index_k_with_scale_buffer
        self.index_k_with_scale_buffer = [torch.zeros_like(pages) for pages in inside]


@mutant("memory-saver.region", source="fzyzcjy/torch_memory_saver#85", serves=MLALeafRequest)
class AllocatesScratchInside(MLALeaf):
    def _zeros(self, *row: int) -> list[Tensor]:
        self.scratch = torch.zeros(1)
        return super()._zeros(*row)


def _multiplied_in_32_bits(loc: Tensor, width: int) -> Tensor:
    offsets = (loc.to(torch.int64) * width).to(torch.int32)
    return offsets.div(width, rounding_mode="floor").to(loc.dtype)


def _as_if_dense(given: Tensor) -> Tensor:
    return given.as_strided(given.shape, torch.empty(given.shape, device="meta").stride())
