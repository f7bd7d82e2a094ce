"""Keys and nothing else: the index keys of sparse layers whose index values nobody reads."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from kvproto.kernels import prepare_moves, store_rows
from kvproto.protocols import BufferRegion, PoolTraits

from .elements import check_geometry
from .layers import OwnedLayers
from .memory_saver import kv_cache_region
from .mha_layout import mha_traits, row_region
from .row_layouts import RowGeometry, RowLayout
from .row_leaf import RowLeaf
from .row_side import as_stored

__all__ = ["KeyOnlyLeaf"]


class KeyOnlyLeaf(RowLeaf):
    """A leaf of key rows: buffers of `[size + page_size, head_num, head_dim]`.

    Keywords, reserved page and fp8 rows are those of `MHALeaf`, without the widths of values.

    :raises ValueError: for impossible geometry, before anything is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    head_num: int
    head_dim: int
    k_buffer: list[Tensor]
    pool_traits: PoolTraits
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
    ) -> None:
        check_geometry(size=size, page_size=page_size, head_num=head_num, head_dim=head_dim)
        self.pool_traits = replace(mha_traits(dtype, "nhd"), kind="key_only")
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, device, layers)
        self.head_num, self.head_dim = head_num, head_dim
        with kv_cache_region(enable_memory_saver):
            self.k_buffer = self._zeros(head_num, head_dim)
        prepare_moves(self.k_buffer)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, head_num, head_dim]` in `dtype`, an alias of the storage."""
        return self.k_buffer[self._fenced(layer_id)].view(self.dtype)

    def set_k_buffer(self, layer_id: int, loc: Tensor, cache_k: Tensor, /) -> None:
        """Store a key row per location, as `KeyOnly` says; fp8 saturates.

        :raises ValueError: for a layer the pool does not own, or rows of another width.
        :raises IndexError: on CPU, for a location past the last row; nothing is written.
        """
        local = self._layers.local(layer_id)
        shape = (loc.shape[0], self.head_num, self.head_dim)
        rows = as_stored(cache_k, shape, self.dtype, None, "cache_k")
        store_rows(self.k_buffer[local], loc, rows)

    def _row_buffers(self) -> list[Tensor]:
        return self.k_buffer

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        pages, item = self.size // self.page_size + 1, self.dtype.itemsize
        rows = RowGeometry("key", pages, self.page_size, self.head_num, self.head_dim, item)
        layout = RowLayout.of("nhd", rows)
        return (row_region("key", self.k_buffer, layout, self.dtype, self._layers.ids),)

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all key buffers, the reserved page included; values take none."""
        return sum(b.nbytes for b in self.k_buffer), 0
