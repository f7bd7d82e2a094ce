"""Sparse attention over rows by head: index rows that choose, in the slots of the main rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, PoolTraits, WriteLocation

from .elements import check_geometry
from .head_rows import HeadRows, store_head_rows
from .key_only import KeyOnlyLeaf
from .mha import MHALeaf
from .mha_layout import mha_traits
from .row_leaf import locations_of
from .sparse_doors import SparseDoors
from .sparse_layers import SparseLayers
from .sparse_parts import Part

__all__ = ["SparseIndexLeaf", "sparse_traits"]


class SparseIndexLeaf(SparseDoors[MHALeaf]):
    """K and V rows of every layer, and index rows of one head for the sparse layers.

    The constructor takes the keywords in use today. The three lists of layers are the whole
    model's; the leaf owns those from `start_layer` to `end_layer` (exclusive), which are just
    around the lists by default, and each of its own has to be dense or sparse. Rows are in three
    pools of the same slots: `main_pool` has every layer; sparse layers in
    `disable_value_sparse_layer_ids` have index keys in `index_k_pool`, the others index keys and
    values in `index_kv_pool`, None where there are no such layers here. Those two count their
    layers from 0. `index_dtype` None is `dtype`; fp8 rows are as in `MHALeaf`. Slots on the host
    (`enable_hisparse`) are a `SubsetSparseLeaf`'s; `host_to_device_ratio`, which only it needs,
    changes nothing.

    :raises ValueError: for impossible geometry or layers, before anything is allocated.
    """

    # Declared, as in `SparseDoors`.
    index_k_pool: KeyOnlyLeaf | None
    index_kv_pool: MHALeaf | None
    sparse_layer_id_mapping: Mapping[int, int]
    index_k_layer_id_mapping: Mapping[int, int]
    index_kv_layer_id_mapping: Mapping[int, int]
    pool_traits: PoolTraits
    kv_cache_layout = "nhd"

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
        enable_hisparse: bool = False,
        host_to_device_ratio: int = 2,
    ) -> None:
        check_geometry(size=size, page_size=page_size, idx_head_dim=idx_head_dim)
        if enable_hisparse:
            raise ValueError("enable_hisparse=True: rows of some tokens are a SubsetSparseLeaf's")
        without = disable_value_sparse_layer_ids or ()
        layers = SparseLayers.of(dense_layer_ids, sparse_layer_ids, without, start_layer, end_layer)
        self.pool_traits = sparse_traits(dtype, layers.values_in_model)
        rows: dict[str, Any] = {"size": size, "page_size": page_size, "device": device}
        rows["enable_memory_saver"] = enable_memory_saver
        main = MHALeaf(
            **rows,
            dtype=dtype,
            head_num=head_num,
            head_dim=head_dim,
            layer_num=len(layers.stage),
            start_layer=layers.stage.start,
        )
        element = dtype if index_dtype is None else index_dtype
        index = {**rows, "dtype": element, "head_num": 1, "head_dim": idx_head_dim}
        self._add_index(layers, index)
        self._adopt_main(main)

    def _add_index(self, layers: SparseLayers, keywords: dict[str, Any]) -> None:
        both, alone = layers.keys_and_values, layers.keys_only
        self.index_kv_pool = MHALeaf(**keywords, layer_num=len(both)) if both else None
        self.index_k_pool = KeyOnlyLeaf(**keywords, layer_num=len(alone)) if alone else None
        self.sparse_layer_id_mapping = _numbered(layers.sparse)
        self.index_k_layer_id_mapping = _numbered(alone)
        self.index_kv_layer_id_mapping = _numbered(both)

    def _parts(self) -> tuple[Part, ...]:
        index = (
            (self.index_k_pool, self.index_k_layer_id_mapping),
            (self.index_kv_pool, self.index_kv_layer_id_mapping),
        )
        stage = tuple(range(self.start_layer, self.end_layer))
        parts = [Part(pool, tuple(ids), True) for pool, ids in index if pool is not None]
        return Part(self.main_pool, stage, False), *parts

    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        """All index keys of a sparse layer: `[size + page_size, 1, idx_head_dim]`, an alias.

        :raises ValueError: for a global layer id that is not sparse, or not here.
        """
        pool, local = self._index_pool(layer_id)
        return pool.get_key_buffer(local)

    def get_index_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """All index keys and index values of a layer that has both, as they are stored.

        :raises ValueError: for a layer without index values.
        """
        self._index_pool(layer_id)
        found = self._value_pool(layer_id)
        if found is None:
            raise ValueError(f"layer_id={layer_id} has index keys, but no index values")
        pool, local = found
        return pool.get_kv_buffer(local)

    def set_index_k_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_idx_k: Tensor,
        k_scale: Scale = None,
    ) -> None:
        """Store index keys of a layer without index values, as `SparseIndexed` says."""
        self._store(loc_info, self._index_rows(layer.layer_id, cache_idx_k, None, k_scale, None))

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
        rows = self._index_rows(layer.layer_id, cache_idx_k, cache_idx_v, k_scale, v_scale)
        self._store(loc_info, rows)

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
        layer_id, main = layer.layer_id, self.main_pool
        index = self._index_rows(layer_id, cache_idx_k, cache_idx_v, idx_k_scale, idx_v_scale)
        local = layer_id - self.start_layer
        keys = HeadRows(main.k_buffer[local], self.dtype, cache_k, k_scale, "cache_k")
        values = HeadRows(main.v_buffer[local], self.dtype, cache_v, v_scale, "cache_v")
        self._store(loc_info, [keys, values, *index])

    def _index_rows(
        self, layer_id: int, k: Tensor, v: Tensor | None, k_scale: Scale, v_scale: Scale
    ) -> list[HeadRows]:
        pool, local = self._index_pool(layer_id)
        keys = HeadRows(pool.k_buffer[local], pool.dtype, k, k_scale, "cache_idx_k")
        found = self._value_pool(layer_id)
        if (found is None) is not (v is None):
            kept = list(self.index_kv_layer_id_mapping)
            given = "none were" if v is None else "some were"
            raise ValueError(
                f"layer_id={layer_id}: the layers {kept} have index values, and {given} given; "
                "nothing was written"
            )
        if v is None or found is None:
            return [keys]
        held = found[0].v_buffer[local]
        return [keys, HeadRows(held, pool.dtype, v, v_scale, "cache_idx_v")]

    def _index_pool(self, layer_id: int) -> tuple[MHALeaf | KeyOnlyLeaf, int]:
        for pool, ids in (
            (self.index_k_pool, self.index_k_layer_id_mapping),
            (self.index_kv_pool, self.index_kv_layer_id_mapping),
        ):
            if pool is not None and layer_id in ids:
                return pool, ids[layer_id]
        kept = list(self.sparse_layer_id_mapping)
        raise ValueError(f"layer_id={layer_id} has no index rows here, the layers {kept} have")

    def _value_pool(self, layer_id: int) -> tuple[MHALeaf, int] | None:
        """The pool of index keys and values, and the layer's place there; None without values."""
        if self.index_kv_pool is None or layer_id not in self.index_kv_layer_id_mapping:
            return None
        return self.index_kv_pool, self.index_kv_layer_id_mapping[layer_id]

    def _store(self, loc_info: Tensor | WriteLocation, rows: Sequence[HeadRows]) -> None:
        store_head_rows(locations_of(loc_info), rows)

    def get_sparse_kv_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """The main rows of the sparse layers by page: their keys, then their values."""
        return self._main_infos(self.sparse_layer_id_mapping)


def _numbered(layer_ids: Sequence[int]) -> dict[int, int]:
    return {layer_id: local for local, layer_id in enumerate(layer_ids)}


def sparse_traits(dtype: torch.dtype, has_values: bool) -> PoolTraits:
    """What such a leaf says of itself."""
    return replace(
        mha_traits(dtype, "nhd"),
        kind="sparse_index",
        index_scheme="sparse_kv" if has_values else "sparse_k",
        state_index_space="kv_pages",
    )
