"""A pool as a plugin of an engine writes it, right until what plugins get wrong is put in.

It shares no base class with any other pool, and is annotated throughout, so that type checkers have
a say.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import check_locations, to_stored
from kvproto.protocols import (
    AttentionLayer,
    LayerTransferCounter,
    MHALeafRequest,
    WriteLocation,
)

__all__ = ["PluginPool", "build_plugin"]


class PluginPool:
    """Keys and values of all layers in one tensor each, `[layers, slots, heads, width]`.

    fp8 rows are stored as bytes. Slot 0 is the padding sink; other slots are those of the request.
    """

    cpu_copy_carries_mamba = False
    k_buffer: list[Tensor]
    v_buffer: list[Tensor]

    def __init__(
        self,
        *,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        v_head_dim: int | None,
        layer_num: int,
        start_layer: int,
        device: str | torch.device,
    ) -> None:
        self.size = size
        self.page_size = page_size
        self.dtype = dtype
        self.store_dtype = torch.uint8 if dtype.itemsize == 1 else dtype
        self.device = torch.device(device)
        self.layer_num = layer_num
        self.start_layer = start_layer
        self.end_layer = start_layer + layer_num
        self.head_num = head_num
        self.head_dim = head_dim
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        self.keys = self._zeros(self.head_dim)
        self.values = self._zeros(self.v_head_dim)
        self.k_buffer, self.v_buffer = list(self.keys), list(self.values)
        self._counter: LayerTransferCounter | None = None

    def _zeros(self, width: int) -> Tensor:
        shape = (self.layer_num, self.size + self.page_size, self.head_num, width)
        return torch.zeros(shape, dtype=self.store_dtype, device=self.device)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """`[slots, heads, head_dim]`."""
        return self.keys[self._awaited(layer_id)].view(self.dtype)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """`[slots, heads, v_head_dim]`."""
        return self.values[self._awaited(layer_id)].view(self.dtype)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_v_head_dim(self) -> int:
        """Of any layer."""
        return self.v_head_dim

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        k_scale: float | Tensor | None = None,
        v_scale: float | Tensor | None = None,
        layer_id_override: int | None = None,
    ) -> None:
        """Rows to slots; those aimed at 0 or below are dropped."""
        local = self._local(self._layer_id(layer, layer_id_override))
        loc = self._locations(loc_info)
        check_locations(loc, self.keys.shape[1])
        for rows, width in ((cache_k, self.head_dim), (cache_v, self.v_head_dim)):
            if tuple(rows.shape) != (loc.shape[0], self.head_num, width):
                raise ValueError(f"rows of {list(rows.shape)} where heads are {width} wide")
        self._put(self.keys[local], loc, self._stored(cache_k, k_scale))
        self._put(self.values[local], loc, self._stored(cache_v, v_scale))

    def _layer_id(self, layer: AttentionLayer | None, override: int | None) -> int:
        if override is not None:
            return override
        if layer is None:
            raise ValueError("neither a layer nor layer_id_override")
        return layer.layer_id

    def _locations(self, loc_info: Tensor | WriteLocation) -> Tensor:
        return loc_info if isinstance(loc_info, Tensor) else loc_info.loc

    def _stored(self, rows: Tensor, scale: float | Tensor | None) -> Tensor:
        return to_stored(rows, self.dtype, scale).view(self.store_dtype)

    def _put(self, buffer: Tensor, loc: Tensor, rows: Tensor) -> None:
        kept = (loc > 0).view(-1, 1, 1)
        buffer.index_copy_(0, loc.clamp(min=0).long(), torch.where(kept, rows, 0))

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """All sources are read before a target is written."""
        for loc in (tgt_loc, src_loc):
            check_locations(loc, self.keys.shape[1])
        for plane in (self.keys, self.values):
            rows = plane[:, src_loc.clamp(min=0).long()]
            for buffer, moved in zip(plane, rows, strict=True):
                self._put(buffer, tgt_loc, moved)

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter | None, /
    ) -> None:
        """Whom read doors wait for."""
        self._counter = layer_transfer_counter

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """Addresses, lengths and bytes of a page: all keys, then all values."""
        buffers = [*self.keys, *self.values]
        return (
            [buffer.data_ptr() for buffer in buffers],
            [buffer.nbytes for buffer in buffers],
            [buffer[0].nbytes * self.page_size for buffer in buffers],
        )

    def maybe_get_custom_mem_pool(self) -> object | None:
        """None: nothing is kept elsewhere."""
        return None

    def get_kv_layer_ids(self) -> list[int]:
        """Of the buffers above."""
        return 2 * list(range(self.start_layer, self.end_layer))

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> Any:
        """Rows of all layers, on the host."""
        return [plane[:, indices.clamp(min=0).long()].cpu() for plane in (self.keys, self.values)]

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Back to other slots, of whatever pool of this class."""
        check_locations(indices, self.keys.shape[1])
        for plane, rows in zip((self.keys, self.values), kv_cache_cpu, strict=True):
            for buffer, copied in zip(plane, rows.to(self.device), strict=True):
                self._put(buffer, indices, copied)

    def _awaited(self, layer_id: int) -> int:
        local = self._local(layer_id)
        if self._counter is not None:
            self._counter.wait_until(local)
        return local

    def _local(self, layer_id: int) -> int:
        if not self.start_layer <= layer_id < self.end_layer:
            raise ValueError(f"layer {layer_id} is not of {self.start_layer}..{self.end_layer - 1}")
        return layer_id - self.start_layer


def build_plugin(cls: type[PluginPool], request: MHALeafRequest) -> PluginPool:
    """One for a request of plain rows one after the other, in memory that stays."""
    return cls(
        size=request.size,
        page_size=request.page_size,
        dtype=request.dtype,
        head_num=request.head_num,
        head_dim=request.head_dim,
        v_head_dim=request.v_head_dim,
        layer_num=request.layer_num,
        start_layer=request.start_layer,
        device=request.device,
    )
