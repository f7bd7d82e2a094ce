"""The doors of a sparse leaf that are those of its main rows, whatever keeps them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, WriteLocation

from .sparse_parts import BufInfos, PartedRows, PartPool

__all__ = ["MainRows", "SparseDoors"]


class MainRows(PartPool, Protocol):
    """What is asked of the pool of main rows, which has every layer of the stage."""

    size: int
    page_size: int
    dtype: torch.dtype
    store_dtype: torch.dtype
    device: torch.device
    head_num: int
    head_dim: int
    v_head_dim: int
    v_buffer: list[Tensor]

    @property
    def start_layer(self) -> int: ...
    @property
    def end_layer(self) -> int: ...
    @property
    def layer_num(self) -> int: ...
    def get_key_buffer(self, layer_id: int, /) -> Tensor: ...
    def get_value_buffer(self, layer_id: int, /) -> Tensor: ...
    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]: ...
    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        k_scale: Scale = None,
        v_scale: Scale = None,
        layer_id_override: int | None = None,
    ) -> None: ...


Main = TypeVar("Main", bound=MainRows)


class SparseDoors(PartedRows, Generic[Main]):
    """Geometry and doors of `main_pool`, under global layer ids; index rows are a subclass's."""

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    page_size: int
    dtype: torch.dtype
    store_dtype: torch.dtype
    device: torch.device
    layer_num: int
    head_num: int
    head_dim: int
    v_head_dim: int
    main_pool: Main

    def _adopt_main(self, main: Main) -> None:
        self.main_pool = main
        self.size, self.page_size, self.device = main.size, main.page_size, main.device
        self.dtype, self.store_dtype = main.dtype, main.store_dtype
        self.start_layer, self.end_layer = main.start_layer, main.end_layer
        self.layer_num, self.head_num = main.layer_num, main.head_num
        self.head_dim, self.v_head_dim = main.head_dim, main.v_head_dim

    @property
    def k_buffer(self) -> list[Tensor]:
        """The main key rows, by local layer."""
        return self.main_pool.k_buffer

    @property
    def v_buffer(self) -> list[Tensor]:
        """The main value rows, by local layer."""
        return self.main_pool.v_buffer

    def get_v_head_dim(self) -> int:
        """The width of a value head, without naming a layer."""
        return self.v_head_dim

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The main key rows of a layer, as `main_pool` has them."""
        return self.main_pool.get_key_buffer(layer_id)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The main value rows of a layer, as `main_pool` has them."""
        return self.main_pool.get_value_buffer(layer_id)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both main buffers of a layer."""
        return self.main_pool.get_kv_buffer(layer_id)

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        k_scale: Scale = None,
        v_scale: Scale = None,
        layer_id_override: int | None = None,
    ) -> None:
        """Store a main row per location, in any layer, as `main_pool` does; index rows stay."""
        self.main_pool.set_kv_buffer(
            layer, loc_info, cache_k, cache_v, k_scale, v_scale, layer_id_override
        )

    def _main_infos(self, layer_ids: Collection[int]) -> BufInfos:
        """The main rows of these layers by page: their keys, then their values."""
        entries = zip(self.get_kv_layer_ids(), *self.get_contiguous_buf_infos(), strict=True)
        kept = [entry for layer_id, *entry in entries if layer_id in layer_ids]
        ptrs, lens, items = ([entry[column] for entry in kept] for column in range(3))
        return ptrs, lens, items
