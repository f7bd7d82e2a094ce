"""Leaves with index rows, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, SparseIndexLeafRequest
from kvproto.reference import SparseIndexLeaf
from kvproto.reference.sparse_parts import Part

from .registry import mutant

Infos = tuple[list[int], list[int], list[int]]


@mutant("sparse.layers", serves=SparseIndexLeafRequest)
class SharesIndexBuffers(SparseIndexLeaf):
    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        pool, _ = self._index_pool(layer_id)
        return pool.get_key_buffer(0)


@mutant("sparse.layers", source="sgl-project/sglang#22605", serves=SparseIndexLeafRequest)
class AnswersForDenseLayers(SparseIndexLeaf):
    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        known = layer_id in self.sparse_layer_id_mapping or not self.sparse_layer_id_mapping
        chosen = layer_id if known else next(iter(self.sparse_layer_id_mapping))
        return super().get_index_k_buffer(chosen)


@mutant("sparse.fused", source="sgl-project/sglang#30340", serves=SparseIndexLeafRequest)
class CountsIndexLayersFromTheStage(SparseIndexLeaf):
    def _index_pool(self, layer_id: int) -> Any:
        pool, local = super()._index_pool(layer_id)
        return pool, (local + self.start_layer) % pool.layer_num


@mutant("sparse.fused", serves=SparseIndexLeafRequest)
class SwapsIndexKeysAndValues(SparseIndexLeaf):
    def set_fused_kv_index_buffer(
        self,
        layer: Any,
        loc_info: Any,
        cache_k: Any,
        cache_v: Any,
        cache_idx_k: Any,
        cache_idx_v: Any,
        *scales: Any,
        **named: Any,
    ) -> None:
        index = (cache_idx_k, cache_idx_v)
        swapped = index if cache_idx_v is None else index[::-1]
        super().set_fused_kv_index_buffer(
            layer, loc_info, cache_k, cache_v, *swapped, *scales, **named
        )


@mutant("sparse.index-keys", serves=SparseIndexLeafRequest)
class StoresKeysWithoutTheirValues(SparseIndexLeaf):
    def set_index_k_buffer(self, layer: Any, loc_info: Any, *rest: Any, **named: Any) -> None:
        found = self._value_pool(layer.layer_id)
        if found is not None:
            pool, local = found
            rows = rest[0].reshape(len(loc_info), 1, pool.head_dim)
            kept = loc_info > 0
            pool.get_key_buffer(pool.start_layer + local)[loc_info[kept]] = rows[kept].to(
                pool.dtype
            )
        else:
            super().set_index_k_buffer(layer, loc_info, *rest, **named)


@mutant("sparse.guards", source="sgl-project/sglang#36207", serves=SparseIndexLeafRequest)
class GuardsTheMainRowsOnly(SparseIndexLeaf):
    def set_fused_kv_index_buffer(
        self, layer: Any, loc_info: Any, *rows: Any, **named: Any
    ) -> None:
        super().set_fused_kv_index_buffer(layer, loc_info, *rows, **named)
        pool, local = self._index_pool(layer.layer_id)
        at_zero = (loc_info == 0).nonzero().flatten()
        if len(at_zero):
            element = rows[2][at_zero[0]].to(pool.dtype)
            pool.k_buffer[local][0] = element.view(pool.store_dtype)


@mutant("sparse.refuses", serves=SparseIndexLeafRequest)
class WritesMainRowsFirst(SparseIndexLeaf):
    def set_fused_kv_index_buffer(
        self, layer: Any, loc_info: Any, cache_k: Any, cache_v: Any, *rest: Any, **named: Any
    ) -> None:
        self.set_kv_buffer(layer, loc_info, cache_k, cache_v, *rest[2:4])
        super().set_fused_kv_index_buffer(layer, loc_info, cache_k, cache_v, *rest, **named)


@mutant("sparse.inputs", source="sgl-project/sglang#38178", serves=SparseIndexLeafRequest)
class ReadsIndexRowsAsIfDense(SparseIndexLeaf):
    def set_fused_kv_index_buffer(
        self,
        layer: Any,
        loc_info: Any,
        cache_k: Any,
        cache_v: Any,
        cache_idx_k: Any,
        *rest: Any,
        **named: Any,
    ) -> None:
        dense = torch.empty(cache_idx_k.shape, device="meta").stride()
        flat = cache_idx_k.as_strided(cache_idx_k.shape, dense)
        super().set_fused_kv_index_buffer(layer, loc_info, cache_k, cache_v, flat, *rest, **named)


@mutant("sparse.scales", source="sgl-project/sglang#18818", serves=SparseIndexLeafRequest)
class ScalesIndexRowsLikeMainRows(SparseIndexLeaf):
    def set_fused_kv_index_buffer(
        self, layer: Any, loc_info: Any, *rows_and_scales: Any, **named: Any
    ) -> None:
        rows, scales = rows_and_scales[:4], rows_and_scales[4:6]
        super().set_fused_kv_index_buffer(layer, loc_info, *rows, *scales, *scales, **named)


@mutant("sync-free.sparse", source="sgl-project/sglang#36751", serves=SparseIndexLeafRequest)
class LooksBeforeItStores(SparseIndexLeaf):
    def set_fused_kv_index_buffer(
        self, layer: Any, loc_info: Any, *rows: Any, **named: Any
    ) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        if not len(loc) or int(loc.min()) > -self.size * 1000:
            super().set_fused_kv_index_buffer(layer, loc_info, *rows, **named)


@mutant("sparse.move", source="sgl-project/sglang#31215", serves=SparseIndexLeafRequest)
class LeavesIndexRowsBehind(SparseIndexLeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        self.main_pool.move_kv_cache(tgt_loc, src_loc)


@mutant("sparse.move", serves=SparseIndexLeafRequest)
class MovesIndexRowsInOrder(SparseIndexLeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        main, *index = self._parts()
        main.pool.move_kv_cache(tgt_loc, src_loc)
        for part in index:
            for i in range(len(tgt_loc)):
                part.pool.move_kv_cache(tgt_loc[i : i + 1], src_loc[i : i + 1])


@mutant("sparse.host-copy", source="sgl-project/sglang#36121", serves=SparseIndexLeafRequest)
class CopiesMainRowsOnly(SparseIndexLeaf):
    def get_cpu_copy(self, indices: Tensor, *rest: Any, **named: Any) -> Any:
        return self.main_pool.get_cpu_copy(indices)

    def load_cpu_copy(self, kv_cache_cpu: Any, indices: Tensor, *rest: Any, **named: Any) -> None:
        self.main_pool.load_cpu_copy(kv_cache_cpu, indices)


@mutant("sparse.read-waits", serves=SparseIndexLeafRequest)
class WaitsByTheIndexPoolsLayer(SparseIndexLeaf):
    def register_layer_transfer_counter(self, layer_transfer_counter: Any, /) -> None:
        for part in self._parts():
            part.pool.register_layer_transfer_counter(layer_transfer_counter)


@mutant("sparse.state-lists", source="sgl-project/sglang#23539", serves=SparseIndexLeafRequest)
class SkipsDenseLayers(SparseIndexLeaf):
    def get_state_buf_infos(self) -> Infos:
        rows = [r for r in zip(*super().get_state_buf_infos(), strict=True) if r[2]]
        ptrs, lens, items = ([row[column] for row in rows] for column in range(3))
        return ptrs, lens, items


@mutant("sparse.state-items", source="sgl-project/sglang#26490", serves=SparseIndexLeafRequest)
class ExportsMainRowsAsState(SparseIndexLeaf):
    def get_state_buf_infos(self) -> Infos:
        ptrs, lens, items = super().get_state_buf_infos()
        main = self.main_pool.k_buffer[0].data_ptr() if self.layer_num else 0
        return [main if item else at for at, item in zip(ptrs, items, strict=True)], lens, items


@mutant("sparse.sparse-pages", serves=SparseIndexLeafRequest)
class InterleavesKeysAndValues(SparseIndexLeaf):
    def get_sparse_kv_buf_infos(self) -> Infos:
        ptrs, lens, items = super().get_sparse_kv_buf_infos()
        half = len(ptrs) // 2
        order = [i for pair in zip(range(half), range(half, 2 * half), strict=True) for i in pair]
        return [ptrs[i] for i in order], [lens[i] for i in order], [items[i] for i in order]


@mutant("oracle.sparse", serves=SparseIndexLeafRequest)
class NamesIndexLayersFromZero(SparseIndexLeaf):
    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(
            replace(region, bases=region.bases[::-1])
            if region.fields[0].name == "index_key"
            else region
            for region in super().buffer_regions()
        )


@mutant("traits.request", serves=SparseIndexLeafRequest)
class ArrivesAsPlainRows(SparseIndexLeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pool_traits = self.main_pool.pool_traits


@mutant("transfer.complete", source="sgl-project/sglang#23539", serves=SparseIndexLeafRequest)
class KeepsIndexRowsToItself(SparseIndexLeaf):
    def get_state_buf_infos(self) -> Infos:
        return [], [], []


@mutant("size.bytes", serves=SparseIndexLeafRequest)
class CountsMainRowsOnly(SparseIndexLeaf):
    def get_kv_size_bytes(self) -> tuple[int, int]:
        return self.main_pool.get_kv_size_bytes()


@mutant("memory-saver.region", source="sgl-project/sglang#19029", serves=SparseIndexLeafRequest)
class AllocatesIndexRowsOutside(SparseIndexLeaf):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for part in self._parts():
            _leave_the_region(part)


def _leave_the_region(part: Part) -> None:
    if part.is_index:
        part.pool.k_buffer = [buffer.clone() for buffer in part.pool.k_buffer]
