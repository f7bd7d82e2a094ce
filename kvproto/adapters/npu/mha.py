"""Multi-head attention: a plane of keys and a plane of values."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from kvproto.kernels import prefix_locations
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, BufferRegion, PoolTraits, WriteLocation
from kvproto.reference.elements import check_geometry
from kvproto.reference.layers import OwnedLayers
from kvproto.reference.memory_saver import kv_cache_region
from kvproto.reference.mha_layout import mha_traits
from kvproto.reference.row_leaf import locations_of, written_layer
from kvproto.reference.row_stores import TiledRows

from .gather import gather_sequences
from .head_planes import Given, checked_rows
from .kept import check_layout
from .operators import Rows, store_pair
from .plane_leaf import PlaneLeaf
from .planes import Plane, PlaneShape

__all__ = ["HEAD_LAYOUTS", "HeadLayout", "NPUMHALeaf"]

HeadLayout: TypeAlias = Literal["nhd", "paged_nhd"]
"""How read doors show a layer; what lies in memory is the same."""

HEAD_LAYOUTS: tuple[HeadLayout, ...] = get_args(HeadLayout)


class NPUMHALeaf(PlaneLeaf):
    """Keys and values, each one tensor `[layers, pages, page_size, head_num, head_dim]`.

    `pages` is `size / page_size + 1`: page 0 is reserved. The constructor takes the keywords in use
    today. `v_head_dim` None means `head_dim`; values may be of another width than keys. `end_layer`
    is exclusive. `kv_cache_layout` says how doors and `k_buffer` show a layer: `paged_nhd`, which
    None means, `[pages, page_size, head_num, dim]`, or `nhd`, `[pages * page_size, head_num, dim]`.
    fp8 rows are stored as bytes (`store_dtype` uint8), saturated and divided by the scale they are
    written with. `enable_alt_stream` and `enable_kv_cache_copy` are taken for call compatibility.

    The layout is what Ascend attention and its host tier read today, from their source; it was not
    run on hardware here.

    :raises ValueError: for impossible geometry, another layout, or fp8 but e4m3fn, before anything
        is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    head_num: int
    head_dim: int
    v_head_dim: int
    k_buffer: list[Tensor]
    v_buffer: list[Tensor]
    pool_traits: PoolTraits
    kv_cache_layout: HeadLayout

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool = False,
        v_head_dim: int | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        enable_alt_stream: bool = True,
        enable_kv_cache_copy: bool = False,
        kv_cache_layout: HeadLayout | None = None,
    ) -> None:
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        check_geometry(
            size=size,
            page_size=page_size,
            head_num=head_num,
            head_dim=head_dim,
            v_head_dim=self.v_head_dim,
        )
        self.kv_cache_layout = kv_cache_layout or "paged_nhd"
        check_layout(self.kv_cache_layout, HEAD_LAYOUTS)
        self.pool_traits = mha_traits(dtype, self.kv_cache_layout)
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, device, layers)
        self.head_num, self.head_dim = head_num, head_dim
        with kv_cache_region(enable_memory_saver):
            self._keys, self._values = self._plane(head_dim), self._plane(self.v_head_dim)
        self.k_buffer, self.v_buffer = self._shown(self._keys), self._shown(self._values)
        self._key_layers, self._value_layers = self._keys.by_layer(), self._values.by_layer()

    def _plane(self, width: int) -> Plane:
        shape = PlaneShape(self.layer_num, self._pages, self.page_size, self.head_num, width)
        return Plane.of_zeros(shape, self.dtype, self.store_dtype, self.device)

    def _shown(self, plane: Plane) -> list[Tensor]:
        return plane.slots() if self.kv_cache_layout == "nhd" else plane.layers()

    def get_v_head_dim(self) -> int:
        """The width of a value head, without naming a layer."""
        return self.v_head_dim

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The keys of a layer in `dtype`, in the leaf's layout: an alias of the storage."""
        return self.k_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The values of a layer in `dtype`, in the leaf's layout: an alias of the storage."""
        return self.v_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both buffers of a layer."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_fia_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Keys and values as fused inference attention takes them: `[slots, 1, head_num, dim]`.

        Views of the layer alone, so that a captured graph does not hold every layer's rows.

        :raises ValueError: for a global layer id the pool does not own.
        """
        keys, values = self.get_kv_buffer(layer_id)
        heads = self.head_num
        return keys.view(-1, 1, heads, self.head_dim), values.view(-1, 1, heads, self.v_head_dim)

    def gather_kv_buffer(
        self, layer_id: int, block_tables: Tensor, seq_lens: Tensor, seq_len_sum: int, /
    ) -> tuple[Tensor, Tensor]:
        """Keys and values of a batch, sequence after sequence: `[seq_len_sum, head_num, dim]`.

        Fresh tensors in `dtype`. `block_tables` is `[sequences, pages]`, of which what lies past a
        length is not looked at, `seq_lens` `[sequences]`, and `seq_len_sum` their sum. Waits like
        every read door, and for nothing else.

        :raises ValueError: for a global layer id the pool does not own.
        """
        local = self._fenced(layer_id)
        keys, values = self._key_layers[local], self._value_layers[local]
        rows = gather_sequences(keys, values, block_tables, seq_lens, seq_len_sum)
        return rows[0].view(self.dtype), rows[1].view(self.dtype)

    def get_hicache_transfer_buffers(self) -> tuple[Tensor, Tensor]:
        """Keys and values of all layers, in the store dtype, for a host tier to exchange pages.

        `[layers, pages, page_size, head_num, dim]`, each in one run of bytes.
        """
        return self._keys.tensor, self._values.tensor

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
        """Store a row per location, as `KVLeaf` says; scales count on fp8 pools only.

        `layer_id_override` is a global id that goes before the layer's own; with it `layer` may
        be None.
        """
        layer_id, loc = written_layer(layer, layer_id_override), locations_of(loc_info)
        given = (cache_k, k_scale, "cache_k"), (cache_v, v_scale, "cache_v")
        store_pair(loc, *self.rows_to_store(layer_id, loc.shape[0], *given), self.dtype)

    def rows_to_store(self, layer_id: int, n: int, keys: Given, values: Given) -> tuple[Rows, Rows]:
        """Rows of a layer, checked, for whoever stores those of several leaves together.

        :raises ValueError: for a layer the pool does not own, rows of another number or width, and
            a scale that is none.
        """
        local = self._layers.local(layer_id)
        k_layer, v_layer = self._key_layers[local], self._value_layers[local]
        k_rows = checked_rows(k_layer, keys, (n, self.head_num, self.head_dim), self.dtype)
        v_rows = checked_rows(v_layer, values, (n, self.head_num, self.v_head_dim), self.dtype)
        return k_rows, v_rows

    def set_kv_buffer_prefix_valid(
        self,
        layer: AttentionLayer | None,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Tensor,
        cache_v: Tensor,
        k_scale: Scale = None,
        v_scale: Scale = None,
        layer_id_override: int | None = None,
    ) -> None:
        """Store the accepted first drafts of each request, as `PrefixValidCommit` says."""
        loc = prefix_locations(loc_2d, commit_lens)
        self.set_kv_buffer(layer, loc, cache_k, cache_v, k_scale, v_scale, layer_id_override)

    def _planes(self) -> list[Tensor]:
        return [self._keys.tensor, self._values.tensor]

    def _stores(self) -> list[TiledRows]:
        return [*self._keys.all_layers(), *self._values.all_layers()]

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        ids = self._layers.ids
        return self._keys.region("key", ids), self._values.region("value", ids)

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all keys and of all values, the reserved page included."""
        return self._keys.tensor.nbytes, self._values.tensor.nbytes
