"""Sparse attention over rows by head: planes of main rows, and of index rows at the same slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, LayerTransferCounter, PoolTraits, WriteLocation
from kvproto.reference.elements import check_geometry
from kvproto.reference.row_leaf import locations_of
from kvproto.reference.sides import SideCounter
from kvproto.reference.sparse_layers import SparseLayers
from kvproto.reference.sparse_parts import Part, PartedRows

from .kept import check_rows_element
from .key_only import NPUKeyOnlyLeaf, store_keys
from .mha import HeadLayout, NPUMHALeaf
from .operators import Rows, store_pair

__all__ = ["NPUSparseIndexLeaf"]


class NPUSparseIndexLeaf(PartedRows):
    """K and V rows of every layer, and index rows of one head for the sparse layers, in planes.

    The constructor takes the keywords in use today, and `kv_cache_layout` as `NPUMHALeaf` does.
    `main_pool` has every layer of the stage; sparse layers in `disable_value_sparse_layer_ids` have
    index keys in `index_k_pool`, the others index keys and values in `index_kv_pool`, None where
    there are no such layers here. Those two count their layers from 0. Lists of layers are the
    whole model's; `index_dtype` None is `dtype`. Not run on hardware.

    :raises ValueError: for impossible geometry or layers, before anything is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    page_size: int
    dtype: torch.dtype
    store_dtype: torch.dtype
    device: torch.device
    start_layer: int
    end_layer: int
    layer_num: int
    head_num: int
    head_dim: int
    v_head_dim: int
    main_pool: NPUMHALeaf
    index_k_pool: NPUKeyOnlyLeaf | None
    index_kv_pool: NPUMHALeaf | None
    pool_traits: PoolTraits
    kv_cache_layout: HeadLayout

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        idx_head_dim: int,
        dense_layer_ids: Sequence[int],
        sparse_layer_ids: Sequence[int],
        device: str | torch.device,
        disable_value_sparse_layer_ids: Sequence[int] | None = None,
        enable_memory_saver: bool = False,
        index_dtype: torch.dtype | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        kv_cache_layout: HeadLayout | None = None,
    ) -> None:
        element = dtype if index_dtype is None else index_dtype
        check_geometry(size=size, page_size=page_size, idx_head_dim=idx_head_dim)
        check_rows_element(element)
        without = disable_value_sparse_layer_ids or ()
        layers = SparseLayers.of(dense_layer_ids, sparse_layer_ids, without, start_layer, end_layer)
        rows: dict[str, Any] = {"size": size, "page_size": page_size, "device": device}
        rows |= {"enable_memory_saver": enable_memory_saver, "kv_cache_layout": kv_cache_layout}
        main = NPUMHALeaf(
            **rows,
            dtype=dtype,
            head_num=head_num,
            head_dim=head_dim,
            layer_num=len(layers.stage),
            start_layer=layers.stage.start,
        )
        index: dict[str, Any] = {**rows, "head_num": 1, "head_dim": idx_head_dim, "dtype": element}
        both, alone = layers.keys_and_values, layers.keys_only
        self.index_kv_pool = NPUMHALeaf(**index, layer_num=len(both)) if both else None
        self.index_k_pool = NPUKeyOnlyLeaf(**index, layer_num=len(alone)) if alone else None
        self._index_dtype = element
        self._keyed = {layer_id: local for local, layer_id in enumerate(alone)}
        self._valued = {layer_id: local for local, layer_id in enumerate(both)}
        self._adopt(main)
        self.pool_traits = replace(
            main.pool_traits,
            kind="sparse_index",
            index_scheme="sparse_kv" if layers.values_in_model else "sparse_k",
            state_index_space="kv_pages",
        )

    def _adopt(self, main: NPUMHALeaf) -> None:
        self.main_pool, self.kv_cache_layout = main, main.kv_cache_layout
        self.size, self.page_size, self.device = main.size, main.page_size, main.device
        self.dtype, self.store_dtype = main.dtype, main.store_dtype
        self.start_layer, self.end_layer = main.start_layer, main.end_layer
        self.layer_num, self.head_num = main.layer_num, main.head_num
        self.head_dim, self.v_head_dim = main.head_dim, main.v_head_dim

    def _parts(self) -> tuple[Part, ...]:
        parts = [Part(self.main_pool, tuple(range(self.start_layer, self.end_layer)), False)]
        if self.index_k_pool is not None:
            parts.append(Part(self.index_k_pool, tuple(self._keyed), True))
        if self.index_kv_pool is not None:
            parts.append(Part(self.index_kv_pool, tuple(self._valued), True))
        return tuple(parts)

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
        """The main key rows of a layer, as `NPUMHALeaf` has them."""
        return self.main_pool.get_key_buffer(layer_id)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The main value rows of a layer, as `NPUMHALeaf` has them."""
        return self.main_pool.get_value_buffer(layer_id)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both main buffers of a layer."""
        return self.main_pool.get_kv_buffer(layer_id)

    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        """All index keys of a sparse layer, of one head, in the leaf's layout: an alias.

        :raises ValueError: for a global layer id that is not sparse, or not here.
        """
        if self.index_k_pool is not None and layer_id in self._keyed:
            return self.index_k_pool.get_key_buffer(self._keyed[layer_id])
        return self.get_index_kv_buffer(layer_id)[0]

    def get_index_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """All index keys and index values of a layer that has both, as they are stored.

        :raises ValueError: for a layer without index values.
        """
        if self.index_kv_pool is None or layer_id not in self._valued:
            raise self._no_index_rows(layer_id)
        return self.index_kv_pool.get_kv_buffer(self._valued[layer_id])

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
        """Store a main row per location, in any layer, as `NPUMHALeaf` does; index rows stay."""
        self.main_pool.set_kv_buffer(
            layer, loc_info, cache_k, cache_v, k_scale, v_scale, layer_id_override
        )

    def set_index_k_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_idx_k: Tensor,
        k_scale: Scale = None,
    ) -> None:
        """Store index keys of a layer without index values, as `SparseIndexed` says."""
        loc = locations_of(loc_info)
        self._store_index(loc, self._index_rows(layer.layer_id, loc, cache_idx_k, None, k_scale))

    def set_index_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_idx_k: Tensor,
        cache_idx_v: Tensor,
        k_scale: Scale = None,
        v_scale: Scale = None,
    ) -> None:
        """Store index keys and values of a layer that has both.

        :raises ValueError: for a layer without index values.
        """
        loc, scales = locations_of(loc_info), (k_scale, v_scale)
        rows = self._index_rows(layer.layer_id, loc, cache_idx_k, cache_idx_v, *scales)
        self._store_index(loc, rows)

    def set_fused_kv_index_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor,
        cache_idx_k: Tensor,
        cache_idx_v: Tensor | None,
        k_scale: Scale = None,
        v_scale: Scale = None,
        idx_k_scale: Scale = None,
        idx_v_scale: Scale = None,
    ) -> None:
        """Store the main and index rows of a sparse layer at once, as `SparseIndexed` says."""
        layer_id, loc = layer.layer_id, locations_of(loc_info)
        scales = idx_k_scale, idx_v_scale
        index = self._index_rows(layer_id, loc, cache_idx_k, cache_idx_v, *scales)
        given = (cache_k, k_scale, "cache_k"), (cache_v, v_scale, "cache_v")
        main = self.main_pool.rows_to_store(layer_id, loc.shape[0], *given)
        store_pair(loc, *main, self.dtype)
        self._store_index(loc, index)

    def _index_rows(
        self,
        layer_id: int,
        loc: Tensor,
        k: Tensor,
        v: Tensor | None,
        k_scale: Scale,
        v_scale: Scale = None,
    ) -> tuple[Rows, ...]:
        n, keys = loc.shape[0], (k, k_scale, "cache_idx_k")
        if layer_id in self._keyed and self.index_k_pool is not None and v is None:
            return (self.index_k_pool.rows_to_store(self._keyed[layer_id], n, keys),)
        if self.index_kv_pool is None or layer_id not in self._valued or v is None:
            raise self._no_index_rows(layer_id)
        values = v, v_scale, "cache_idx_v"
        return self.index_kv_pool.rows_to_store(self._valued[layer_id], n, keys, values)

    def _store_index(self, loc: Tensor, rows: tuple[Rows, ...]) -> None:
        keys, *values = rows
        if values:
            store_pair(loc, keys, values[0], self._index_dtype)
        else:
            store_keys(loc, keys, self._index_dtype)

    def _no_index_rows(self, layer_id: int) -> ValueError:
        return ValueError(
            f"layer_id={layer_id}: the layers {list(self._keyed)} have index keys alone here, "
            f"{list(self._valued)} index keys and values; nothing was written"
        )

    def get_sparse_kv_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """The main rows of the sparse layers by page: their keys, then their values."""
        sparse = {*self._keyed, *self._valued}
        entries = zip(self.get_kv_layer_ids(), *self.get_contiguous_buf_infos(), strict=True)
        kept = [entry for layer_id, *entry in entries if layer_id in sparse]
        ptrs, lens, items = ([entry[column] for entry in kept] for column in range(3))
        return ptrs, lens, items

    def get_hicache_transfer_buffers(self) -> tuple[Tensor, Tensor]:
        """The main rows of all layers, for a host tier; index pools have their own."""
        return self.main_pool.get_hicache_transfer_buffers()

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        """Every read door waits from now on, those of the parts too, by the layer in the stage."""
        for part in self._parts():
            thresholds = tuple(layer_id - self.start_layer for layer_id in part.layer_ids)
            part.pool.register_layer_transfer_counter(
                SideCounter(layer_transfer_counter, thresholds)
            )
