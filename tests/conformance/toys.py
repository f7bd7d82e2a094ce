"""A vendor's first pool, with three faults that public trackers show: the kit must name them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import Declined, LeafRequest, MHALeafRequest


class ToyPool:
    """K and V rows in NHD layout, written the way one writes a pool the first time."""

    cpu_copy_carries_mamba = False

    def __init__(self, request: MHALeafRequest) -> None:
        self.size, self.page_size = request.size, request.page_size
        self.dtype = self.store_dtype = request.dtype
        self.device = torch.device(request.device)
        self.layer_num = request.layer_num
        self.start_layer, self.end_layer = request.start_layer, request.end_layer
        rows = self.size + self.page_size
        self.k_buffer = [
            self._zeros(rows, request, request.head_dim) for _ in range(self.layer_num)
        ]
        self.v_buffer = [
            self._zeros(rows, request, request.value_head_dim) for _ in range(self.layer_num)
        ]

    def _zeros(self, rows: int, request: MHALeafRequest, width: int) -> Tensor:
        return torch.zeros(rows, request.head_num, width, dtype=self.dtype)

    def get_key_buffer(self, layer_id: int) -> Tensor:
        return self.k_buffer[layer_id]  # fault: forgets `- self.start_layer`

    def get_value_buffer(self, layer_id: int) -> Tensor:
        return self.v_buffer[layer_id]

    def get_kv_buffer(self, layer_id: int) -> tuple[Tensor, Tensor]:
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def set_kv_buffer(self, layer: Any, loc: Tensor, cache_k: Tensor, cache_v: Tensor) -> None:
        self.k_buffer[layer.layer_id][loc] = cache_k.to(self.dtype)
        self.v_buffer[layer.layer_id][loc] = cache_v.to(self.dtype)

    def register_layer_transfer_counter(self, counter: Any) -> None:
        self.counter = counter

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = self.k_buffer + self.v_buffer
        # fault: the bytes of one token, where a page's are meant
        items = [buffer[0].nbytes for buffer in buffers]
        return [b.data_ptr() for b in buffers], [b.nbytes for b in buffers], items

    def maybe_get_custom_mem_pool(self) -> None:
        return None

    # fault: callers pass mamba_indices= and req_pool_index= as well
    def get_cpu_copy(self, indices: Tensor) -> list[Tensor]:
        return [buffer[indices].cpu() for buffer in self.k_buffer + self.v_buffer]

    def load_cpu_copy(
        self,
        copy: list[Tensor],
        indices: Tensor,
        mamba_indices: Any = None,
        req_pool_index: Any = None,
    ) -> None:
        for buffer, rows in zip(self.k_buffer + self.v_buffer, copy, strict=True):
            buffer[indices] = rows


def build(request: LeafRequest) -> ToyPool | Declined:
    """What the vendor hands to the kit."""
    if not isinstance(request, MHALeafRequest) or request.layout != "nhd":
        return Declined("K and V rows in NHD layout only")
    if request.quant_scheme != "none":
        return Declined("rows in bf16, fp16 or fp32 only")
    if request.enable_memory_saver:
        return Declined("no memory saver")
    return ToyPool(request)
