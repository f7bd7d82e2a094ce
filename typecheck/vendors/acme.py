"""A vendor's pool, as an engineer at Acme would write it: no base class of ours, all annotated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import AttentionLayer, LayerTransferCounter, WriteLocation

__all__ = ["AcmePool"]


class AcmePool:
    """Keys and values by head, `[slots, heads, width]` per layer, page 0 reserved."""

    cpu_copy_carries_mamba = False

    def __init__(
        self,
        *,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str | torch.device,
        start_layer: int = 0,
        v_head_dim: int | None = None,
    ) -> None:
        self.size = size
        self.page_size = page_size
        self.dtype = self.store_dtype = dtype
        self.device = device
        self.layer_num = layer_num
        self.start_layer = start_layer
        self.end_layer = start_layer + layer_num
        self.head_num = head_num
        self.head_dim = head_dim
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        self.k_buffer = [self._rows(self.head_dim) for _ in range(layer_num)]
        self.v_buffer = [self._rows(self.v_head_dim) for _ in range(layer_num)]
        self._counter: LayerTransferCounter | None = None

    def get_key_buffer(self, layer_id: int) -> Tensor:
        return self.k_buffer[self._local(layer_id)]

    def get_value_buffer(self, layer_id: int) -> Tensor:
        return self.v_buffer[self._local(layer_id)]

    def get_kv_buffer(self, layer_id: int) -> tuple[Tensor, Tensor]:
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_v_head_dim(self) -> int:
        return self.v_head_dim

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
    ) -> None:
        local = self._local(layer.layer_id, wait=False)
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        # Real slots begin after the reserved page; what is aimed at 0 or below is padding.
        kept = loc > 0
        writes = ((self.k_buffer[local], cache_k), (self.v_buffer[local], cache_v))
        for buffer, rows in writes:
            if rows.shape[1:] != buffer.shape[1:]:
                raise ValueError(f"rows are {list(rows.shape)}, the pool's {list(buffer.shape)}")
        for buffer, rows in writes:
            buffer[loc[kept]] = rows[kept].to(self.dtype)

    def register_layer_transfer_counter(self, layer_transfer_counter: LayerTransferCounter) -> None:
        self._counter = layer_transfer_counter

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor) -> None:
        kept = tgt_loc > 0
        for buffer in self.k_buffer + self.v_buffer:
            buffer[tgt_loc[kept]] = buffer[src_loc[kept]]

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = self.k_buffer + self.v_buffer
        return (
            [buffer.data_ptr() for buffer in buffers],
            [buffer.nbytes for buffer in buffers],
            [buffer[0].nbytes * self.page_size for buffer in buffers],
        )

    def maybe_get_custom_mem_pool(self) -> None:
        return None

    def get_kv_layer_ids(self) -> list[int]:
        return 2 * list(range(self.start_layer, self.end_layer))

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> list[Tensor]:
        return [buffer[indices].cpu() for buffer in self.k_buffer + self.v_buffer]

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        for buffer, rows in zip(self.k_buffer + self.v_buffer, kv_cache_cpu, strict=True):
            buffer[indices] = rows.to(self.device)

    def _rows(self, width: int) -> Tensor:
        shape = (self.size + self.page_size, self.head_num, width)
        return torch.zeros(shape, dtype=self.dtype, device=self.device)

    def _local(self, layer_id: int, *, wait: bool = True) -> int:
        if not self.start_layer <= layer_id < self.end_layer:
            raise ValueError(f"layer {layer_id} is not of {self.start_layer}..{self.end_layer - 1}")
        local = layer_id - self.start_layer
        if wait and self._counter is not None:
            self._counter.wait_until(local)
        return local
