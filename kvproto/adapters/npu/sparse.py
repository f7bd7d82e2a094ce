"""Sparse attention over rows by head: planes of main rows, and of index rows at the same slots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, PoolTraits, WriteLocation
from kvproto.reference.elements import check_geometry
from kvproto.reference.row_leaf import locations_of
from kvproto.reference.sparse_doors import SparseDoors
from kvproto.reference.sparse_layers import SparseLayers
from kvproto.reference.sparse_parts import Part

from .kept import check_rows_element
from .key_only import NPUKeyOnlyLeaf, store_keys
from .mha import HeadLayout, NPUMHALeaf
from .operators import Rows, store_pair

__all__ = ["NPUSparseIndexLeaf"]


class NPUSparseIndexLeaf(SparseDoors[NPUMHALeaf]):
    """K and V rows of every layer, and index rows of one head for the sparse layers, in planes.

    The constructor takes the keywords in use today, and `kv_cache_layout` as `NPUMHALeaf` does.
    `main_pool` has every layer of the stage; sparse layers in `disable_value_sparse_layer_ids` have
    index keys in `index_k_pool`, the others index keys and values in `index_kv_pool`, None where
    there are no such layers here. Those two count their layers from 0. Lists of layers are the
    whole model's; `index_dtype` None is `dtype`. Not run on hardware.

    :raises ValueError: for impossible geometry or layers, before anything is allocated.
    """

    # Declared, as in `SparseDoors`.
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
        self._adopt_main(main)
        self.kv_cache_layout = main.kv_cache_layout
        self.pool_traits = replace(
            main.pool_traits,
            kind="sparse_index",
            index_scheme="sparse_kv" if layers.values_in_model else "sparse_k",
            state_index_space="kv_pages",
        )

    def _parts(self) -> tuple[Part, ...]:
        parts = [Part(self.main_pool, tuple(range(self.start_layer, self.end_layer)), False)]
        if self.index_k_pool is not None:
            parts.append(Part(self.index_k_pool, tuple(self._keyed), True))
        if self.index_kv_pool is not None:
            parts.append(Part(self.index_kv_pool, tuple(self._valued), True))
        return tuple(parts)

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
        return self._main_infos({*self._keyed, *self._valued})

    def get_hicache_transfer_buffers(self) -> tuple[Tensor, Tensor]:
        """The main rows of all layers, for a host tier; index pools have their own."""
        return self.main_pool.get_hicache_transfer_buffers()
