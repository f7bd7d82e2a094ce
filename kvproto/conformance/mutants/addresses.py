"""Leaves whose addresses are counted in 32 bits."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import store_index_keys
from kvproto.protocols import (
    DSALeafRequest,
    MHALeafRequest,
    MLALeafRequest,
)
from kvproto.reference import DSALeaf, MHALeaf, MLALeaf

from .registry import mutant


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


def _multiplied_in_32_bits(loc: Tensor, width: int) -> Tensor:
    offsets = (loc.to(torch.int64) * width).to(torch.int32)
    return offsets.div(width, rounding_mode="floor").to(loc.dtype)
