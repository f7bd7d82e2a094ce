"""K and V rows under block scales: elements and scales are stored, moved and exported together."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from kvproto.kernels import prefix_locations
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import (
    AttentionLayer,
    BufferRegion,
    PoolTraits,
    WriteLocation,
    buf_infos,
)
from kvproto.protocols.layout import ElementType

from .block_layout import element_region, scale_region
from .block_rows import BlockRows, BlockTarget, store_block_rows
from .given_rows import given_rows
from .host_rows import (
    HostRows,
    check_copied,
    check_meaning,
    check_rows,
    copy_rows_to_host,
    load_rows_from_host,
    meaning_of,
)
from .layer_buffers import zeros_by_layer
from .layers import OwnedLayers
from .memory_saver import kv_cache_region
from .row_leaf import RowLeaf, locations_of, written_layer
from .row_stores import RowStore, SlotRows, move_all, prepare_all
from .scale_layout import ScalesOfTokens

__all__ = ["BlockScaledLeaf", "Side"]

Side = Literal["k", "v"]

Infos = tuple[list[int], list[int], list[int]]


class BlockScaledLeaf(RowLeaf):
    """Bytes of elements `[slots, head_num, bytes]` and of their scales, per layer and side.

    A subclass says how rows become both (`_encode`), where scales lie (`_k_scales`, `_v_scales`),
    and has the read doors.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    head_num: int
    head_dim: int
    v_head_dim: int
    k_buffer: list[Tensor]
    v_buffer: list[Tensor]
    k_scale_buffer: list[Tensor]
    v_scale_buffer: list[Tensor]
    pool_traits: PoolTraits
    kv_cache_layout = "nhd"
    _element: ElementType

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        heads: tuple[int, int, int],
        scales: tuple[ScalesOfTokens, ScalesOfTokens],
        scale_dtype: torch.dtype,
        layers: OwnedLayers,
        device: str | torch.device,
        enable_memory_saver: bool,
    ) -> None:
        """`heads` are their number, and the widths of a key and of a value head."""
        super().__init__(size, page_size, dtype, device, layers)
        self.store_dtype = torch.uint8
        self.head_num, self.head_dim, self.v_head_dim = heads
        self._k_scales, self._v_scales = scales
        with kv_cache_region(enable_memory_saver):
            self._allocate()
        prepare_all(self._stores())
        self.k_scale_buffer = [buffer.view(scale_dtype) for buffer in self._k_scale_bytes]
        self.v_scale_buffer = [buffer.view(scale_dtype) for buffer in self._v_scale_bytes]

    def _allocate(self) -> None:
        """Every buffer with a row per slot, and nothing else."""
        self.k_buffer = self._zeros(self.head_num, self._row_bytes(self.head_dim))
        self.v_buffer = self._zeros(self.head_num, self._row_bytes(self.v_head_dim))
        self._k_scale_bytes = self._scale_zeros(self._k_scales)
        self._v_scale_bytes = self._scale_zeros(self._v_scales)

    @abstractmethod
    def _row_bytes(self, width: int) -> int:
        """Bytes of a head's row of `width` elements."""

    @abstractmethod
    def _encode(self, local: int, side: Side, rows: Tensor, scale: Scale) -> BlockRows:
        """What is stored of `[n, heads, width]` rows of a layer by local index."""

    def _scale_zeros(self, scales: ScalesOfTokens) -> list[Tensor]:
        shape = scales.shape(self.size + self.page_size)
        return zeros_by_layer(self.layer_num, shape, torch.uint8, self.device)

    def get_v_head_dim(self) -> int:
        """The width of a value head, without naming a layer."""
        return self.v_head_dim

    def get_kv_scale_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Key and value scales of a layer; aliases of the storage."""
        local = self._fenced(layer_id)
        return self.k_scale_buffer[local], self.v_scale_buffer[local]

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
        """Quantise and store a row per location, as `KVLeaf` says.

        `layer_id_override` is a global id that goes before the layer's own; with it `layer`
        may be None. Scales are those of `ScaledWrite`.
        """
        local = self._layers.local(written_layer(layer, layer_id_override))
        loc = locations_of(loc_info)
        self._check(loc)
        n, heads = loc.shape[0], self.head_num
        keys = given_rows(cache_k, n, heads, self.head_dim, "cache_k")
        values = given_rows(cache_v, n, heads, self.v_head_dim, "cache_v")
        k = BlockTarget(self.k_buffer[local], self._k_scale_bytes[local], self._k_scales)
        v = BlockTarget(self.v_buffer[local], self._v_scale_bytes[local], self._v_scales)
        k_rows = self._encode(local, "k", keys, k_scale)
        v_rows = self._encode(local, "v", values, v_scale)
        store_block_rows(loc, ((k, k_rows), (v, v_rows)))

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

    def restore_reserved(self) -> None:
        """Zero slot 0 of elements and scales, after a memory saver resumed them."""
        super().restore_reserved()
        for scales, buffer in self._scales():
            scales.clear_reserved(buffer)

    def _row_buffers(self) -> list[Tensor]:
        return [*self.k_buffer, *self.v_buffer]

    def _scales(self) -> list[tuple[ScalesOfTokens, Tensor]]:
        keys = [(self._k_scales, buffer) for buffer in self._k_scale_bytes]
        return keys + [(self._v_scales, buffer) for buffer in self._v_scale_bytes]

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Copy tokens with their scales, in every layer; all sources are read first."""
        self._check(tgt_loc, src_loc)
        move_all(self._stores(), tgt_loc, src_loc)

    def _stores(self) -> list[RowStore]:
        """Elements, then scales."""
        elements = (SlotRows(buffer) for buffer in (*self.k_buffer, *self.v_buffer))
        return [*elements, *(scales.rows(buffer) for scales, buffer in self._scales())]

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> HostRows:
        """The elements of the given locations, then their scales, of every layer; bit-exact."""
        self._check(indices)
        copy, of = copy_rows_to_host(self._stores(), indices), [each for each, _ in self._scales()]
        first = len(copy.rows) - len(of)
        scales = [
            held.view(copy.count, each.heads, each.blocks)
            for each, held in zip(of, copy.rows[first:], strict=True)
        ]
        rows = (*copy.rows[:first], *scales)
        return replace(copy, rows=rows, meaning=meaning_of(self.buffer_regions()))

    def load_cpu_copy(
        self,
        kv_cache_cpu: HostRows,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Write a copy back, to these locations; as many as it was made from.

        :raises ValueError: for another number of locations or buffers, or rows of another
            geometry; nothing is written.
        """
        self.check_cpu_copy(kv_cache_cpu, indices, req_pool_index=req_pool_index)
        elements, scales = self._parted(kv_cache_cpu)
        by_slot = [
            held.reshape(elements.count, *each.rows(buffer).row_shape)
            for (each, buffer), held in zip(self._scales(), scales, strict=True)
        ]
        whole = replace(elements, rows=(*elements.rows, *by_slot))
        load_rows_from_host(self._stores(), whole, indices)

    def check_cpu_copy(
        self, kv_cache_cpu: HostRows, indices: Tensor, /, *, req_pool_index: int | None = None
    ) -> None:
        """Nothing, or what `load_cpu_copy` raises."""
        self._check(indices)
        check_meaning(kv_cache_cpu, self.buffer_regions())
        elements, scales = self._parted(kv_cache_cpu)
        check_rows(self._row_stores(), elements, indices)
        for (each, buffer), held in zip(self._scales(), scales, strict=True):
            check_copied(held, (elements.count, each.heads, each.blocks), buffer.dtype)

    def _parted(self, copy: HostRows) -> tuple[HostRows, tuple[Tensor, ...]]:
        """Elements, then scales, of which there is one tensor for each of `_scales`."""
        first = max(len(copy.rows) - len(self._scales()), 0)
        return replace(copy, rows=copy.rows[:first]), copy.rows[first:]

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        layers, page = self._layers.ids, self.page_size
        return (
            element_region("key", self._element, self.k_buffer, layers, page),
            element_region("value", self._element, self.v_buffer, layers, page),
        )

    def _scale_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        layers, page = self._layers.ids, self.page_size
        scheme = self.pool_traits.quant_scheme
        keys, values = self._k_scales.axes(page), self._v_scales.axes(page)
        return (
            scale_region("key_scale", scheme, keys, self._k_scale_bytes, layers),
            scale_region("value_scale", scheme, values, self._v_scale_bytes, layers),
        )

    def get_kv_scale_buf_infos(self) -> Infos:
        """The scales' regions: keys of all layers, then values; an item is one page's scales."""
        return buf_infos(self._scale_regions())

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """Keys, values, key scales, value scales; none for a stage without layers."""
        return self._row_regions() + self._scale_regions()

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of the key side and of the value side, scales and the reserved page included."""
        k, v = (*self.k_buffer, *self._k_scale_bytes), (*self.v_buffer, *self._v_scale_bytes)
        return sum(b.nbytes for b in k), sum(b.nbytes for b in v)
