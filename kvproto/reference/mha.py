"""Multi-head attention: one K row and one V row per token and layer, in NHD layout."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import prefix_locations, store_rows, to_stored
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, BufferRegion, PoolTraits, WriteLocation

from .elements import check_geometry
from .layers import OwnedLayers
from .memory_saver import kv_cache_region
from .mha_layout import nhd_region, nhd_traits
from .row_leaf import RowLeaf, locations_of, written_layer

__all__ = ["MHALeaf"]


class MHALeaf(RowLeaf):
    """A leaf of K and V rows: buffers of `[size + page_size, head_num, head_dim | v_head_dim]`.

    The constructor takes the keywords in use today. `size` counts usable slots and is a
    multiple of `page_size`; page 0 is reserved on top of it and stays zero. `v_head_dim` None
    means `head_dim`. `end_layer` is exclusive. fp8 rows are stored as bytes (`store_dtype`
    uint8), saturated to their own variant and divided by the scale they are written with.
    `enable_alt_stream` and `enable_kv_cache_copy` are taken for call compatibility: moves always
    work here and writes use the caller's stream.

    :raises ValueError: for impossible geometry, before anything is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    head_num: int
    head_dim: int
    v_head_dim: int
    k_buffer: list[Tensor]
    v_buffer: list[Tensor]
    pool_traits: PoolTraits
    kv_cache_layout = "nhd"

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
    ) -> None:
        self.v_head_dim = head_dim if v_head_dim is None else v_head_dim
        check_geometry(
            size=size,
            page_size=page_size,
            head_num=head_num,
            head_dim=head_dim,
            v_head_dim=self.v_head_dim,
        )
        self.pool_traits = nhd_traits(dtype)
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, device, layers)
        self.head_num, self.head_dim = head_num, head_dim
        with kv_cache_region(enable_memory_saver):
            self.k_buffer = self._zeros(head_num, head_dim)
            self.v_buffer = self._zeros(head_num, self.v_head_dim)

    def get_v_head_dim(self) -> int:
        """The width of a value head, without naming a layer."""
        return self.v_head_dim

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, head_num, head_dim]` in `dtype`, an alias of the storage."""
        return self._read(self.k_buffer, layer_id)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, head_num, v_head_dim]` in `dtype`, an alias of the storage."""
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
        self._check(loc)
        k_rows = self._rows(cache_k, loc, self.head_dim, k_scale, "cache_k")
        v_rows = self._rows(cache_v, loc, self.v_head_dim, v_scale, "cache_v")
        store_rows(self.k_buffer[local], loc, k_rows)
        store_rows(self.v_buffer[local], loc, v_rows)

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

    def _rows(self, given: Tensor, loc: Tensor, width: int, scale: Scale, name: str) -> Tensor:
        n, heads = loc.shape[0], self.head_num
        if given.shape not in ((n, heads, width), (n, heads * width)):
            raise ValueError(
                f"{name} has shape {tuple(given.shape)}, must be ({n}, {heads}, {width}) for {n} "
                f"locations, {heads} heads and width {width}; nothing was written"
            )
        return to_stored(given.reshape(n, heads, width), self.dtype, scale)

    def _row_buffers(self) -> list[Tensor]:
        return [*self.k_buffer, *self.v_buffer]

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        return (
            nhd_region("key", self.k_buffer, self.dtype, self._layers.ids, self.page_size),
            nhd_region("value", self.v_buffer, self.dtype, self._layers.ids, self.page_size),
        )

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all key and of all value buffers, the reserved page included."""
        return sum(b.nbytes for b in self.k_buffer), sum(b.nbytes for b in self.v_buffer)
