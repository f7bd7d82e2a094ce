"""Multi-head attention: one K row and one V row per token and layer, in NHD layout."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import FP8_DTYPES, check_locations, move_rows, store_rows, to_fp8
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import (
    AttentionLayer,
    BufferRegion,
    LayerTransferCounter,
    PoolTraits,
    WriteLocation,
    buf_infos,
)

from .host_rows import HostRows, copy_rows_to_host, load_rows_from_host
from .layers import OwnedLayers
from .memory_saver import kv_cache_region
from .mha_layout import check_geometry, nhd_region, nhd_traits

__all__ = ["MHALeaf"]

_GIB = 1 << 30


class MHALeaf:
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
    size: int
    page_size: int
    dtype: torch.dtype
    store_dtype: torch.dtype
    device: torch.device
    head_num: int
    head_dim: int
    v_head_dim: int
    k_buffer: list[Tensor]
    v_buffer: list[Tensor]
    pool_traits: PoolTraits
    cpu_copy_carries_mamba = False
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
        check_geometry(size, page_size, head_num, head_dim, self.v_head_dim)
        self.pool_traits = nhd_traits(dtype)
        self._layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        self.size, self.page_size = size, page_size
        self.head_num, self.head_dim = head_num, head_dim
        self.dtype, self.device = dtype, torch.device(device)
        self.store_dtype = torch.uint8 if dtype in FP8_DTYPES else dtype
        self._counter: LayerTransferCounter | None = None
        with kv_cache_region(enable_memory_saver):
            self.k_buffer = self._allocate(head_dim)
            self.v_buffer = self._allocate(self.v_head_dim)

    def _allocate(self, width: int) -> list[Tensor]:
        shape = (self.size + self.page_size, self.head_num, width)
        return [
            torch.zeros(shape, dtype=self.store_dtype, device=self.device)
            for _ in range(self.layer_num)
        ]

    @property
    def start_layer(self) -> int:
        """The first global layer id."""
        return self._layers.start

    @property
    def end_layer(self) -> int:
        """One past the last global layer id."""
        return self._layers.end

    @property
    def layer_num(self) -> int:
        """Layers owned."""
        return self._layers.count

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
        local = self._layers.local(layer_id)
        if self._counter is not None:
            self._counter.wait_until(local)
        return buffers[local].view(self.dtype)

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
        local = self._layers.local(_layer_id(layer, layer_id_override))
        loc = loc_info if isinstance(loc_info, Tensor) else loc_info.loc
        check_locations(loc, self.size + self.page_size)
        k_rows = self._rows(cache_k, loc, self.head_dim, k_scale, "cache_k")
        v_rows = self._rows(cache_v, loc, self.v_head_dim, v_scale, "cache_v")
        store_rows(self.k_buffer[local], loc, k_rows)
        store_rows(self.v_buffer[local], loc, v_rows)

    def _rows(self, given: Tensor, loc: Tensor, width: int, scale: Scale, name: str) -> Tensor:
        n, heads = loc.shape[0], self.head_num
        if given.shape not in ((n, heads, width), (n, heads * width)):
            raise ValueError(
                f"{name} has shape {tuple(given.shape)}, must be ({n}, {heads}, {width}) for {n} "
                f"locations, {heads} heads and width {width}; nothing was written"
            )
        rows = given.reshape(n, heads, width)
        if self.dtype in FP8_DTYPES:
            return to_fp8(rows, self.dtype, scale).view(self.store_dtype)
        return rows.to(self.dtype)

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Copy tokens from slot to slot in every layer; all sources are read first."""
        for loc in (tgt_loc, src_loc):
            check_locations(loc, self.size + self.page_size)
        for buffer in (*self.k_buffer, *self.v_buffer):
            move_rows(buffer, tgt_loc, src_loc)

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """K of all layers, then V of all layers; item length is one page's bytes."""
        return buf_infos(self.buffer_regions())

    def get_kv_layer_ids(self) -> list[int]:
        """The owned global ids twice: once for K, once for V."""
        return [*self._layers.ids, *self._layers.ids]

    def maybe_get_custom_mem_pool(self) -> object | None:
        """None: the buffers come from torch's default allocator."""
        return None

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """The K region and the V region; none for a stage without layers."""
        if not self.layer_num:
            return ()
        return (
            nhd_region("key", self.k_buffer, self.dtype, self._layers.ids, self.page_size),
            nhd_region("value", self.v_buffer, self.dtype, self._layers.ids, self.page_size),
        )

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all key and of all value buffers, the reserved page included."""
        return sum(b.nbytes for b in self.k_buffer), sum(b.nbytes for b in self.v_buffer)

    @property
    def mem_usage(self) -> float:
        """GiB of all buffers."""
        return sum(self.get_kv_size_bytes()) / _GIB

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> HostRows:
        """The rows of the given locations, of every layer, on the host; bit-exact."""
        check_locations(indices, self.size + self.page_size)
        return copy_rows_to_host([*self.k_buffer, *self.v_buffer], indices)

    def load_cpu_copy(
        self,
        kv_cache_cpu: HostRows,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Write a copy back, to these locations; as many as it was made from."""
        check_locations(indices, self.size + self.page_size)
        load_rows_from_host([*self.k_buffer, *self.v_buffer], kv_cache_cpu, indices)

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        """Read doors wait on it from now on, by local layer index."""
        self._counter = layer_transfer_counter


def _layer_id(layer: AttentionLayer | None, override: int | None) -> int:
    if override is not None:
        return override
    if layer is None:
        raise ValueError("set_kv_buffer: layer is None and layer_id_override was not given")
    return layer.layer_id
