"""A plane of keys and nothing else: index keys of sparse layers without index values."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from kvproto.kernels import to_stored
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import BufferRegion, PoolTraits
from kvproto.reference.elements import check_geometry
from kvproto.reference.layers import OwnedLayers
from kvproto.reference.memory_saver import kv_cache_region
from kvproto.reference.mha_layout import mha_traits
from kvproto.reference.row_stores import TiledRows

from .head_planes import Given, checked_rows
from .kept import check_layout
from .mha import HEAD_LAYOUTS, HeadLayout
from .operators import Rows, store_rows
from .plane_leaf import PlaneLeaf
from .planes import Plane, PlaneShape

__all__ = ["NPUKeyOnlyLeaf", "store_keys"]


class NPUKeyOnlyLeaf(PlaneLeaf):
    """Keys `[layers, pages, page_size, head_num, head_dim]` in one tensor.

    Keywords, reserved page, layouts and fp8 are those of `NPUMHALeaf`, without the widths of
    values. Not run on hardware.

    :raises ValueError: as `NPUMHALeaf`, before anything is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    head_num: int
    head_dim: int
    k_buffer: list[Tensor]
    pool_traits: PoolTraits
    kv_cache_layout: HeadLayout
    # There are no values: declared as not supported, so that this is no half of `KVPool`.
    get_value_buffer: None = None
    get_kv_buffer: None = None
    set_kv_buffer: None = None

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
        start_layer: int | None = None,
        end_layer: int | None = None,
        kv_cache_layout: HeadLayout | None = None,
    ) -> None:
        check_geometry(size=size, page_size=page_size, head_num=head_num, head_dim=head_dim)
        self.kv_cache_layout = kv_cache_layout or "paged_nhd"
        check_layout(self.kv_cache_layout, HEAD_LAYOUTS)
        self.pool_traits = replace(mha_traits(dtype, self.kv_cache_layout), kind="key_only")
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, device, layers)
        self.head_num, self.head_dim = head_num, head_dim
        shape = PlaneShape(layer_num, self._pages, page_size, head_num, head_dim)
        with kv_cache_region(enable_memory_saver):
            self._keys = Plane.of_zeros(shape, dtype, self.store_dtype, self.device)
        by_slot = self.kv_cache_layout == "nhd"
        self.k_buffer = self._keys.slots() if by_slot else self._keys.layers()
        self._key_layers = self._keys.by_layer()

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The keys of a layer in `dtype`, in the leaf's layout: an alias of the storage."""
        return self.k_buffer[self._fenced(layer_id)].view(self.dtype)

    def set_k_buffer(self, layer_id: int, loc: Tensor, cache_k: Tensor, /) -> None:
        """Store a key row per location, as `KeyOnly` says; fp8 saturates.

        :raises ValueError: for a layer the pool does not own, or rows of another width.
        :raises IndexError: on CPU, for a location past the last row; nothing is written.
        """
        rows = self.rows_to_store(layer_id, loc.shape[0], (cache_k, None, "cache_k"))
        store_keys(loc, rows, self.dtype)

    def rows_to_store(self, layer_id: int, n: int, keys: Given) -> Rows:
        """Rows of a layer, checked, for whoever stores those of several leaves together.

        :raises ValueError: as `NPUMHALeaf.rows_to_store`.
        """
        layer = self._key_layers[self._layers.local(layer_id)]
        return checked_rows(layer, keys, (n, self.head_num, self.head_dim), self.dtype)

    def get_hicache_transfer_buffers(self) -> tuple[Tensor]:
        """The keys of all layers, in the store dtype, for a host tier to exchange pages."""
        return (self._keys.tensor,)

    def _planes(self) -> list[Tensor]:
        return [self._keys.tensor]

    def _stores(self) -> list[TiledRows]:
        return self._keys.all_layers()

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        return (self._keys.region("key", self._layers.ids),) if self.layer_num else ()

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all keys, the reserved page included; values take none."""
        return self._keys.tensor.nbytes, 0


def store_keys(loc: Tensor, keys: Rows, dtype: torch.dtype) -> None:
    """Put the rows of a plane at locations, in `dtype`; those of 0 and below are dropped."""
    scale: Scale = keys.scale
    store_rows(loc, keys.layer, to_stored(keys.given, dtype, scale))
