"""A vendor's leaves, which share no base with ours: plain rows, and rows with index keys."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

__all__ = ["DoorsOnlyLeaf", "ForeignIndexedLeaf", "ForeignLeaf"]


class DoorsOnlyLeaf:
    """A `KVLeaf` and nothing more: one tensor `[2, layers, slots, heads, dim]` for everything."""

    def __init__(
        self,
        *,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str,
        start_layer: int = 0,
    ) -> None:
        self.size, self.page_size = size, page_size
        self.dtype = self.store_dtype = dtype
        self.device = device
        self.start_layer, self.layer_num = start_layer, layer_num
        self.end_layer = start_layer + layer_num
        shape = (2, layer_num, size + page_size, head_num, head_dim)
        self.rows = torch.zeros(shape, dtype=dtype, device=device)
        self.waits_on: Any = None

    def _local(self, layer_id: int, *, wait: bool = False) -> int:
        if not self.start_layer <= layer_id < self.end_layer:
            raise ValueError(f"no layer {layer_id}")
        if wait and self.waits_on is not None:
            self.waits_on.wait_until(layer_id - self.start_layer)
        return layer_id - self.start_layer

    def get_key_buffer(self, layer_id: int) -> Tensor:
        return self.rows[0, self._local(layer_id, wait=True)]

    def get_value_buffer(self, layer_id: int) -> Tensor:
        return self.rows[1, self._local(layer_id, wait=True)]

    def get_kv_buffer(self, layer_id: int) -> tuple[Tensor, Tensor]:
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def set_kv_buffer(self, layer: Any, loc_info: Any, cache_k: Tensor, cache_v: Tensor) -> None:
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        local = self._local(layer.layer_id)
        for side, rows in enumerate((cache_k, cache_v)):
            self._store(self.rows[side, local], loc, rows.to(self.dtype))

    def register_layer_transfer_counter(self, layer_transfer_counter: Any) -> None:
        self.waits_on = layer_transfer_counter

    def _store(self, target: Tensor, loc: Tensor, rows: Tensor) -> None:
        kept = (loc > 0).view(-1, 1, 1)
        target.index_copy_(0, loc.clamp(min=0).long(), torch.where(kept, rows, 0))


class ForeignLeaf(DoorsOnlyLeaf):
    """Moves tokens, copies them to the host and exports them too; says nothing of itself."""

    cpu_copy_carries_mamba = False

    def _layers(self) -> Tensor:
        return self.rows.flatten(0, 1)

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor) -> None:
        for layer in self._layers():
            self._store(layer, tgt_loc, layer.index_select(0, src_loc.clamp(min=0)))

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        layers = list(self._layers())
        item = self.page_size * self.rows[0, 0, 0].nbytes if self.layer_num else 0
        return [t.data_ptr() for t in layers], [t.nbytes for t in layers], [item] * len(layers)

    def get_kv_layer_ids(self) -> list[int]:
        return 2 * list(range(self.start_layer, self.end_layer))

    def maybe_get_custom_mem_pool(self) -> None:
        return None

    def get_cpu_copy(
        self, indices: Tensor, mamba_indices: Any = None, req_pool_index: Any = None
    ) -> Tensor:
        return self._layers().index_select(1, indices.clamp(min=0)).cpu()

    def load_cpu_copy(
        self,
        kv_cache_cpu: Tensor,
        indices: Tensor,
        mamba_indices: Any = None,
        req_pool_index: Any = None,
    ) -> None:
        for layer, rows in zip(self._layers(), kv_cache_cpu, strict=True):
            self._store(layer, indices, rows)


class ForeignIndexedLeaf(ForeignLeaf):
    """With an index key of two bytes per token and its scale, key after key in a page."""

    index_head_dim, index_kpool = 2, 1

    def __init__(self, **keywords: Any) -> None:
        super().__init__(**keywords)
        self.index_page_size = self.page_size
        pages = (self.size // self.page_size + 1, self.page_size * (2 + 4))
        self.index_k_with_scale_buffer = [
            torch.zeros(pages, dtype=torch.uint8) for _ in range(self.layer_num)
        ]

    def get_index_k_with_scale_buffer(self, layer_id: int) -> Tensor:
        return self.index_k_with_scale_buffer[self._local(layer_id, wait=True)]

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        pages, page = self.index_k_with_scale_buffer[self._local(layer_id)], self.page_size
        for slot, key, scale in zip(loc.tolist(), index_k, index_k_scale, strict=True):
            if slot > 0:
                row, at = pages[slot // page], slot % page
                row[2 * at : 2 * at + 2] = key
                start = 2 * page + 4 * at
                row[start : start + 4] = scale.view(1).view(torch.uint8)

    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: Tensor,
        page_indices: Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[Tensor, Tensor]:
        pages = self.get_index_k_with_scale_buffer(layer_id)
        slots = [(row, t) for row, n in enumerate(seq_len_tensor.tolist()) for t in range(n)]
        where = [(page_indices[row, t // self.page_size], t % self.page_size) for row, t in slots]
        keys = [pages[p, 2 * t : 2 * t + 2] for p, t in where]
        start = 2 * self.page_size
        scales = [pages[p, start + 4 * t : start + 4 * t + 4] for p, t in where]
        return torch.stack(keys), torch.stack(scales)

    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = self.index_k_with_scale_buffer
        return (
            [b.data_ptr() for b in buffers],
            [b.nbytes for b in buffers],
            [b.shape[1] for b in buffers],
        )


def layer(layer_id: int) -> Any:
    """What a model passes as a layer, as far as a pool looks at it."""
    return SimpleNamespace(layer_id=layer_id)
