"""Sparse attention over rows by head whose device holds the sparse layers' rows of some tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import store_row_sets
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, BufferRegion, WriteLocation

from .elements import check_geometry
from .head_rows import HeadRows
from .hisparse import DeviceLocations
from .mha import MHALeaf
from .row_leaf import locations_of, written_layer
from .sparse_index import SparseIndexLeaf, sparse_traits
from .sparse_layers import SparseLayers
from .sparse_parts import Part, in_one_by_name

__all__ = ["SubsetSparseLeaf"]


class SubsetSparseLeaf(DeviceLocations, SparseIndexLeaf):
    """Rows of sparse layers by device slot, all others by id; doors are given ids.

    Keywords are those of `SparseIndexLeaf`, and `host_to_device_ratio`: of `size` device slots
    each stands for that many ids. `main_pool` has the slots of the sparse layers; `dense_pool`,
    None where the stage has no dense layer, and both index pools have a row for every id. A main
    row whose id has no slot is dropped when it is written: it is on the host.

    :raises ValueError: for impossible geometry or layers, before anything is allocated.
    """

    # Not supported: a token's rows are in two spaces, which only the owner of both allocators and
    # of the host's rows can move or export together.
    move_kv_cache = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    load_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    check_cpu_copy = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_contiguous_buf_infos = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_kv_layer_ids = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    get_state_buf_infos = None  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]

    dense_pool: MHALeaf | None
    host_to_device_ratio: int

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
        enable_hisparse: bool = True,
        host_to_device_ratio: int = 2,
    ) -> None:
        ratio = host_to_device_ratio
        check_geometry(
            size=size, page_size=page_size, idx_head_dim=idx_head_dim, host_to_device_ratio=ratio
        )
        if not enable_hisparse:
            raise ValueError("enable_hisparse=False: rows of all tokens are a SparseIndexLeaf's")
        without = disable_value_sparse_layer_ids or ()
        layers = SparseLayers.of(dense_layer_ids, sparse_layer_ids, without, start_layer, end_layer)
        common: dict[str, Any] = {"page_size": page_size, "device": device}
        common["enable_memory_saver"] = enable_memory_saver
        rows: dict[str, Any] = {
            **common,
            "dtype": dtype,
            "head_num": head_num,
            "head_dim": head_dim,
        }
        sparse = layers.sparse
        self._dense = tuple(i for i in layers.stage if i not in sparse)
        self.main_pool = MHALeaf(**rows, size=size, layer_num=len(sparse))
        self.dense_pool = None
        if self._dense:
            self.dense_pool = MHALeaf(**rows, size=size * ratio, layer_num=len(self._dense))
        element = dtype if index_dtype is None else index_dtype
        index: dict[str, Any] = {
            **common,
            "dtype": element,
            "head_num": 1,
            "head_dim": idx_head_dim,
        }
        self._add_index(layers, index | {"size": size * ratio})
        self._adopt_main(self.main_pool)
        self.start_layer, self.end_layer = layers.stage.start, layers.stage.stop
        self.layer_num, self.host_to_device_ratio = len(layers.stage), ratio
        self.pool_traits = replace(
            sparse_traits(dtype, layers.values_in_model),
            id_space="virtual",
            rows_are="device_slots",
            state_index_space="none",
        )

    def _parts(self) -> tuple[Part, ...]:
        index = (
            (self.index_k_pool, self.index_k_layer_id_mapping),
            (self.index_kv_pool, self.index_kv_layer_id_mapping),
        )
        parts = [Part(self.main_pool, tuple(self.sparse_layer_id_mapping), False)]
        if self.dense_pool is not None:
            parts.append(Part(self.dense_pool, self._dense, False))
        return *parts, *(Part(pool, tuple(ids), True) for pool, ids in index if pool is not None)

    def _main(self, layer_id: int) -> tuple[MHALeaf, int]:
        """The pool of a layer's main rows, and the layer's place in it."""
        if layer_id in self.sparse_layer_id_mapping:
            return self.main_pool, self.sparse_layer_id_mapping[layer_id]
        if self.dense_pool is not None and layer_id in self._dense:
            return self.dense_pool, self._dense.index(layer_id)
        here = f"{self.start_layer}..{self.end_layer - 1}"
        raise ValueError(f"layer_id={layer_id} is not here, the layers {here} are")

    def _slots(self, layer_id: int, loc: Tensor) -> Tensor:
        """Where main rows of these ids are."""
        is_sparse = layer_id in self.sparse_layer_id_mapping
        return self.translate_loc_to_hisparse_device(loc) if is_sparse else loc

    @property
    def k_buffer(self) -> list[Tensor]:
        """The main key rows, by local layer."""
        places = (self._main(i) for i in range(self.start_layer, self.end_layer))
        return [pool.k_buffer[local] for pool, local in places]

    @property
    def v_buffer(self) -> list[Tensor]:
        """The main value rows, by local layer."""
        places = (self._main(i) for i in range(self.start_layer, self.end_layer))
        return [pool.v_buffer[local] for pool, local in places]

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The main key rows of a layer as stored, by slot of the device or by id."""
        pool, local = self._main(layer_id)
        return pool.get_key_buffer(local)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The main value rows of a layer as stored, by slot of the device or by id."""
        pool, local = self._main(layer_id)
        return pool.get_value_buffer(local)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both main buffers of a layer."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

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
        """Store a main row per id, in any layer; those of sparse layers that have a slot."""
        layer_id = written_layer(layer, layer_id_override)
        pool, local = self._main(layer_id)
        loc = self._slots(layer_id, locations_of(loc_info))
        pool.set_kv_buffer(layer, loc, cache_k, cache_v, k_scale, v_scale, local)

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
        """Store the index rows of a sparse layer by id, and its main rows that have a slot."""
        layer_id, loc = layer.layer_id, locations_of(loc_info)
        index = self._index_rows(layer_id, cache_idx_k, cache_idx_v, idx_k_scale, idx_v_scale)
        main, local = self._main(layer_id)
        keys = HeadRows(main.k_buffer[local], self.dtype, cache_k, k_scale, "cache_k")
        values = HeadRows(main.v_buffer[local], self.dtype, cache_v, v_scale, "cache_v")
        # All is looked at before anything is written.
        by_id = [each.stored(loc.shape[0]) for each in index]
        by_slot = [each.stored(loc.shape[0]) for each in (keys, values)]
        slots = self._slots(layer_id, loc)
        store_row_sets(loc, by_id)
        store_row_sets(slots, by_slot)

    def get_sparse_kv_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """The main rows of the sparse layers by page of the device: keys, then values."""
        return self.main_pool.get_contiguous_buf_infos()

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """Main rows by slot, those by id, then index keys and index values."""
        parts = self._parts()
        main = (region for part in parts if not part.is_index for region in part.regions())
        return *main, *in_one_by_name([part for part in parts if part.is_index])
