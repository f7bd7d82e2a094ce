"""Multi-head attention: one K row and one V row per token and layer."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import prefix_locations
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, BufferRegion, Layout, PoolTraits, WriteLocation

from .device_pool_info import KVBuffers, MHABufferInfo
from .elements import check_geometry
from .given_rows import given_rows
from .host_described import HostDescribed
from .layers import OwnedLayers
from .memory_saver import kv_cache_region
from .mha_layout import mha_traits
from .row_layouts import RowGeometry, RowKind, RowLayoutName, misfit
from .row_leaf import RowLeaf, locations_of, written_layer
from .row_side import RowSide, zeros_for
from .row_stores import Given, RowStore, prepare_all, store_both

__all__ = ["MHALeaf"]


class MHALeaf(HostDescribed, RowLeaf):
    """A leaf of K and V rows, in the layout that `kv_cache_layout` names; None means `nhd`.

    Buffers, with `pages` = `size / page_size + 1` and `dim` = `head_dim` or `v_head_dim`:

    - `nhd`: `[size + page_size, head_num, dim]`.
    - `paged_nhd`: `[pages, page_size, head_num, dim]`, those of all layers in one run of bytes.
    - `hnd`: `[pages, head_num, page_size, dim]`.
    - `vectorized_5d`: with x = 16 bytes of elements, keys `[pages, head_num, head_dim / x,
      page_size, x]` and values `[pages, head_num, page_size / x, v_head_dim, x]`.

    The constructor takes the keywords in use today. `size` counts usable slots and is a
    multiple of `page_size`; page 0 is reserved on top of it and stays zero. `v_head_dim` None
    means `head_dim`. `end_layer` is exclusive. fp8 rows are stored as bytes (`store_dtype`
    uint8), saturated to their own variant and divided by the scale they are written with.
    `enable_alt_stream` and `enable_kv_cache_copy` are taken for call compatibility: moves always
    work here and writes use the caller's stream.

    :raises ValueError: for impossible geometry, or one the layout cannot hold, before anything is
        allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    head_num: int
    head_dim: int
    v_head_dim: int
    k_buffer: list[Tensor]
    v_buffer: list[Tensor]
    pool_traits: PoolTraits
    kv_cache_layout: Layout

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
        kv_cache_layout: RowLayoutName | None = None,
    ) -> None:
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        check_geometry(
            size=size,
            page_size=page_size,
            head_num=head_num,
            head_dim=head_dim,
            v_head_dim=self.v_head_dim,
        )
        layout = kv_cache_layout or "nhd"
        self.pool_traits, self.kv_cache_layout = mha_traits(dtype, layout), layout
        if reason := misfit(layout, page_size, (head_dim, self.v_head_dim), dtype.itemsize):
            raise ValueError(reason)
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, device, layers)
        self.head_num, self.head_dim = head_num, head_dim
        keys, values = self._geometry("key", head_dim), self._geometry("value", self.v_head_dim)
        with kv_cache_region(enable_memory_saver):
            self.k_buffer, self.v_buffer = self._allocated(layout, keys, values)
        self._keys = RowSide.over(self.k_buffer, layout, keys)
        self._values = RowSide.over(self.v_buffer, layout, values)
        prepare_all((*self._keys.stores, *self._values.stores))

    def _geometry(self, kind: RowKind, width: int) -> RowGeometry:
        pages = self.size // self.page_size + 1
        return RowGeometry(kind, pages, self.page_size, self.head_num, width, self.dtype.itemsize)

    def _allocated(
        self, layout: RowLayoutName, keys: RowGeometry, values: RowGeometry
    ) -> tuple[list[Tensor], list[Tensor]]:
        k_buffer, v_buffer = (
            zeros_for(layout, rows, self.layer_num, self.store_dtype, self.device)
            for rows in (keys, values)
        )
        return k_buffer, v_buffer

    def get_v_head_dim(self) -> int:
        """The width of a value head, without naming a layer."""
        return self.v_head_dim

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The keys of a layer in `dtype`, in the leaf's layout: an alias of the storage."""
        return self._read(self.k_buffer, layer_id)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The values of a layer in `dtype`, in the leaf's layout: an alias of the storage."""
        return self._read(self.v_buffer, layer_id)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both buffers of a layer."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def _read(self, buffers: list[Tensor], layer_id: int) -> Tensor:
        return buffers[self._fenced(layer_id)].view(self.dtype)

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

        `layer_id_override` is a global id that goes before the layer's own; with it `layer`
        may be None.
        """
        local = self._layers.local(written_layer(layer, layer_id_override))
        loc = locations_of(loc_info)
        k_rows = self._rows(cache_k, loc, self.head_dim, "cache_k")
        v_rows = self._rows(cache_v, loc, self.v_head_dim, "cache_v")
        keys = Given(self._keys.stores[local], k_rows, k_scale)
        store_both(loc, keys, Given(self._values.stores[local], v_rows, v_scale), self.dtype)

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

    def _rows(self, given: Tensor, loc: Tensor, width: int, name: str) -> Tensor:
        return given_rows(given, loc.shape[0], self.head_num, width, name)

    def _row_buffers(self) -> list[Tensor]:
        return [*self.k_buffer, *self.v_buffer]

    def _row_stores(self) -> list[RowStore]:
        return [*self._keys.stores, *self._values.stores]

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        ids = self._layers.ids
        return self._keys.region(self.dtype, ids), self._values.region(self.dtype, ids)

    def _buffer_info(self) -> MHABufferInfo:
        envelope = self.kv_cache_layout == "page_envelope"
        return MHABufferInfo(
            buffers=KVBuffers(
                k=tuple(self.k_buffer),
                v=tuple(self.v_buffer),
                layout="nhd" if envelope else self.kv_cache_layout,
            ),
            page_size=self.page_size,
            head_num=self.head_num,
            head_dim=self.head_dim,
            v_head_dim=self.v_head_dim,
            dtype=self.store_dtype,
            device=self.device,
        )

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all key and of all value buffers, the reserved page included."""
        return sum(b.nbytes for b in self.k_buffer), sum(b.nbytes for b in self.v_buffer)
