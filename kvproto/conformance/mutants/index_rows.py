"""Leaves of index key rows, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor

from kvproto.adapters.npu.build import indexed_leaf
from kvproto.adapters.npu.dsa import NPUDSALeaf
from kvproto.protocols import Declined, DSALeafRequest
from kvproto.reference.host_rows import HostRows

from .registry import mutant


def _plain(cls: Any, request: DSALeafRequest) -> Any:
    if request.has_index_scales:
        return Declined(f"{cls.__name__} keeps index keys without scales")
    return indexed_leaf(cls, request)


_on = partial(mutant, serves=DSALeafRequest, layouts=("latent_split",), build=_plain)


@_on("index-rows.layers")
class NumbersKeysLikeRows(NPUDSALeaf):
    """A place for every layer of the stage, whether it has keys or not."""

    def __init__(self, **given: Any) -> None:
        changed: dict[str, Any] = given | {"indexer_layer_ids": None}
        super().__init__(**changed)


@_on("index-rows.others")
class AnswersForAnotherLayer(NPUDSALeaf):
    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        return self.index_k_buffer[(layer_id - self.start_layer) % len(self.index_k_buffer)]


@_on("index-rows.write-read", source="sgl-project/sglang#31215")
class KeysGoToTheFirstPage(NPUDSALeaf):
    def set_index_k_buffer(self, layer_id: int, loc: Tensor, index_k: Tensor, /) -> None:
        super().set_index_k_buffer(layer_id, loc % self.page_size, index_k)


class _PlainIndexing(NPUDSALeaf):
    """Sets keys by plain indexing; subclasses put one thing wrong."""

    def _put(self, layer_id: int, loc: Tensor, keys: Tensor) -> None:
        rows = self.index_k_buffer[self._index.slot(layer_id)].view(-1, self.index_head_dim)
        rows[loc.long()] = keys.to(rows.dtype)


@_on("index-rows.guards", source="sgl-project/sglang#36207")
class PadsLandOnSlotZero(_PlainIndexing):
    def set_index_k_buffer(self, layer_id: int, loc: Tensor, index_k: Tensor, /) -> None:
        self._put(layer_id, loc.clamp(min=0), index_k.reshape(loc.shape[0], -1))


@_on("index-rows.inputs", source="sgl-project/sglang#38178")
class ViewsStridedKeys(NPUDSALeaf):
    def set_index_k_buffer(self, layer_id: int, loc: Tensor, index_k: Tensor, /) -> None:
        super().set_index_k_buffer(layer_id, loc.view(-1), index_k.view(-1).view(len(loc), -1))


@_on("index-rows.refuses")
class WritesBeforeItLooks(_PlainIndexing):
    def set_index_k_buffer(self, layer_id: int, loc: Tensor, index_k: Tensor, /) -> None:
        if index_k.shape[-1] != self.index_head_dim:
            raise ValueError("another width")
        for i in range(loc.shape[0]):
            if int(loc[i]) > 0:
                self._put(layer_id, loc[i : i + 1], index_k[i : i + 1].reshape(1, -1))


@_on("index-rows.move", source="sgl-project/sglang#25249")
class MovesRowsAlone(NPUDSALeaf):
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        before = [keys.clone() for keys in self.index_k_buffer]
        super().move_kv_cache(tgt_loc, src_loc)
        for keys, was in zip(self.index_k_buffer, before, strict=True):
            keys.copy_(was)


@_on("index-rows.host-copy", source="sgl-project/sglang#29146")
class CopiesRowsAlone(NPUDSALeaf):
    def load_cpu_copy(
        self,
        kv_cache_cpu: HostRows,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        before = [keys.clone() for keys in self.index_k_buffer]
        super().load_cpu_copy(kv_cache_cpu, indices)
        for keys, was in zip(self.index_k_buffer, before, strict=True):
            keys.copy_(was)


@_on("index-rows.read-waits")
class HandsKeysOutAtOnce(NPUDSALeaf):
    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        return self.index_k_buffer[self._index.slot(layer_id)]


@_on("index-rows.state", source="sgl-project/sglang#23539")
class LeavesOutLayersWithoutKeys(NPUDSALeaf):
    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        entries = [entry for entry in zip(*super().get_state_buf_infos(), strict=True) if entry[1]]
        ptrs, lens, items = ([entry[column] for entry in entries] for column in range(3))
        return ptrs, lens, items
