"""Leaves of latent rows, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import store_rows
from kvproto.protocols import (
    DSALeafRequest,
    MLALeafRequest,
)
from kvproto.reference import DSALeaf, MLALeaf

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
        parts = map(as_if_dense, (cache_k_nope, cache_k_rope))
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


@mutant("sync-free.latent", source="sgl-project/sglang#36751", serves=MLALeafRequest)
class SyncsInSplitWrite(MLALeaf):
    def set_mla_kv_buffer(
        self, layer: Any, loc_info: Any, cache_k_nope: Tensor, cache_k_rope: Tensor, **named: Any
    ) -> None:
        kept = loc_info > 0
        parts = (loc_info[kept], cache_k_nope[kept], cache_k_rope[kept])
        super().set_mla_kv_buffer(layer, *parts, **named)


def as_if_dense(given: Tensor) -> Tensor:
    return given.as_strided(given.shape, torch.empty(given.shape, device="meta").stride())
