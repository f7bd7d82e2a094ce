"""Leaves of index keys, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import gather_index_keys, store_rows
from kvproto.protocols import (
    DSALeafRequest,
)
from kvproto.reference import DSALeaf, MLALeaf

from .latent import as_if_dense
from .registry import mutant

Infos = tuple[list[int], list[int], list[int]]


@mutant("indexer.layers", serves=DSALeafRequest)
class GivesEveryLayerPages(DSALeaf):
    def __init__(self, **given: Any) -> None:
        changed: dict[str, Any] = given | {"skip_topk_layers": None}
        super().__init__(**changed)


@mutant("indexer.layers-foreign", source="sgl-project/sglang#30340", serves=DSALeafRequest)
class IndexTakesAnyLayer(DSALeaf):
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


@mutant("indexer.page-layout", serves=DSALeafRequest)
class KeepsPreshuffledKeysInRows(DSALeaf):
    def __init__(self, **given: Any) -> None:
        changed: dict[str, Any] = given | {"index_layout": "token_rows"}
        super().__init__(**changed)


@mutant("indexer.variant", source="vllm-project/vllm#45720", serves=DSALeafRequest)
class TakesEveryIndexKeyForE4m3fn(DSALeaf):
    def __init__(self, **given: Any) -> None:
        changed: dict[str, Any] = given | {"index_dtype": None}
        super().__init__(**changed)

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        super().set_index_k_scale_buffer(layer_id, loc, index_k.view(torch.uint8), index_k_scale)


@mutant("traits.index", serves=DSALeafRequest)
class CallsPreshuffledKeysRows(DSALeaf):
    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.pool_traits = replace(self.pool_traits, index_scheme="dsa_fp8_scale")


@mutant("indexer.inputs", source="sgl-project/sglang#38178", serves=DSALeafRequest)
class IndexReinterpretsStrides(DSALeaf):
    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        super().set_index_k_scale_buffer(layer_id, loc, as_if_dense(index_k), index_k_scale)


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
