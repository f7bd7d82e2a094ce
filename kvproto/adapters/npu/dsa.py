"""Sparse latent attention: latent rows, and index keys of the layers that choose themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, IndexScheme, PoolTraits
from kvproto.reference.elements import check_geometry
from kvproto.reference.latent_format import PackedLatent, latent_format
from kvproto.reference.layers import OwnedLayers
from kvproto.reference.memory_saver import kv_cache_region
from kvproto.reference.row_stores import TiledRows

from .index_planes import IndexPlanes
from .latent_leaf import LatentPlaneLeaf, LatentRowPlanes
from .mla import split_traits
from .packed_rows import PackedRows
from .split_buffers import MLASplitBuffers
from .split_rows import SplitRows

__all__ = ["NPUDSALeaf", "NPUScaledDSALeaf"]


class _IndexedLeaf(LatentPlaneLeaf):
    """Latent rows beside index keys of `index_dtype`, with scales or without."""

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    index_head_dim: int
    indexer_layer_ids: tuple[int, ...]
    index_k_buffer: list[Tensor]

    _scheme: IndexScheme
    _scaled: bool

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device,
        index_head_dim: int,
        enable_memory_saver: bool = False,
        start_layer: int | None = None,
        end_layer: int | None = None,
        indexer_layer_ids: Sequence[int] | None = None,
        kv_cache_dim: int | None = None,
    ) -> None:
        check_geometry(size=size, page_size=page_size, index_head_dim=index_head_dim)
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        widths = kv_lora_rank, qk_rope_head_dim
        super().__init__(size, page_size, dtype, widths, device, layers)
        self.index_head_dim = index_head_dim
        self.indexer_layer_ids = _keyed(layers, indexer_layer_ids)
        packed = _is_packed(dtype, widths, kv_cache_dim)
        self.pool_traits = _traits(dtype, packed, self._scheme)
        with kv_cache_region(enable_memory_saver):
            self._hold(self._row_planes(widths, packed))
            self._index = self._index_planes()
        self.index_k_buffer = self._index.keys.layers()

    def _row_planes(self, widths: tuple[int, int], packed: bool) -> LatentRowPlanes:
        shapes = self._shape(widths[0]), self._shape(widths[1])
        if packed:
            return PackedRows.of_zeros(shapes[0], *widths, self.device)
        return SplitRows.of_zeros(shapes, self.dtype, self.device)

    def _index_planes(self) -> IndexPlanes:
        ids = self.indexer_layer_ids
        keys = self._shape(self.index_head_dim, layers=len(ids))
        scales = self._shape(1, layers=len(ids)) if self._scaled else None
        dtype = torch.float8_e4m3fn if self._scaled else self.dtype
        return IndexPlanes.of_zeros(ids, (keys, scales), dtype, self.device)

    def get_index_k_buffer(self, layer_id: int, /) -> Tensor:
        """The keys of a layer in what they mean: `[pages, page_size, 1, index_head_dim]`, an alias.

        :raises ValueError: for a layer the pool does not own, or that has no index keys.
        """
        self._fenced(layer_id)
        return self.index_k_buffer[self._index.slot(layer_id)].view(self._index.keys.dtype)

    def set_index_k_buffer(self, layer_id: int, loc: Tensor, index_k: Tensor, /) -> None:
        """Store a key per token slot, as `IndexKeyRows` says.

        :raises ValueError: for a layer without index keys, or keys of another number or width.
        :raises IndexError: on CPU, for a slot past the last; nothing is written.
        """
        self._index.store_keys(layer_id, loc, index_k)

    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """Index keys of every layer by KV page, then scales where there are some.

        A layer without keys keeps its place, with a length and an item length of 0.
        """
        return self._index.buf_infos(range(self.start_layer, self.end_layer))

    def get_hicache_transfer_buffers(self) -> MLASplitBuffers:
        """Every plane, those of index keys and of scales too, for a host tier to exchange pages."""
        scales = self._index.scales if self.indexer_layer_ids else None
        return replace(
            super().get_hicache_transfer_buffers(),
            index_k=self._index.keys.by_page(),
            index_scales=None if scales is None else scales.by_page().squeeze(-1),
            index_layer_indices=tuple(i - self.start_layer for i in self.indexer_layer_ids),
            index_width=self.index_head_dim,
        )

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """Rows, then index keys, then their scales."""
        return (*self._row_regions(), *self._index.regions())

    def _planes(self) -> list[Tensor]:
        return [*super()._planes(), *(plane.tensor for plane in self._index.planes)]

    def _stores(self) -> list[TiledRows]:
        return [*super()._stores(), *self._index.stores()]


class NPUDSALeaf(_IndexedLeaf):
    """Latent and rope planes, and index keys of the rows' own type in a plane of their own.

    Index keys are `[layers with keys, pages, page_size, 1, index_head_dim]`: `indexer_layer_ids`
    are the global ids of those layers, all of them where it is None, and the place of an id in it
    is its slot in the plane. Other keywords are those of `NPUMLALeaf`; rows are in ND order.

    The layout is what Ascend's sparse attention reads today, from its callers' source; it was not
    run on hardware here.

    :raises ValueError: for impossible geometry, before anything is allocated.
    """

    _scheme = "npu_bf16"
    _scaled = False


class NPUScaledDSALeaf(_IndexedLeaf):
    """Latent rows, and e4m3fn index keys with a plane of float32 scales.

    `kv_cache_dim` says which rows: the sum of the parts, which None means, in two planes, or the
    packed width (656 for 512 and 64, dtype e4m3fn), in one: fp8 latents, bf16 rope, then float32
    scales, behind the key door, and nothing behind the value door. Keywords and keys are otherwise
    those of `NPUDSALeaf`; keys and rows are quantised by torch's operations. Not run on hardware.

    :raises ValueError: for impossible geometry, before anything is allocated.
    """

    index_k_scale_buffer: list[Tensor]

    _scheme = "npu_fp8_scale"
    _scaled = True

    def get_index_k_scale_buffer(self, layer_id: int, /) -> Tensor:
        """The scales of a layer: `[pages, page_size, 1]` float32, an alias.

        :raises ValueError: for a layer the pool does not own, or that has no index keys.
        """
        self._fenced(layer_id)
        return self.index_k_scale_buffer[self._index.slot(layer_id)]

    def set_index_k_scale_buffer(self, layer_id: int, loc: Tensor, scale: Tensor, /) -> None:
        """Store a scale per token slot, as `ScaledIndexKeyRows` says.

        :raises ValueError: for a layer without index keys, or another number of scales.
        :raises IndexError: on CPU, for a slot past the last; nothing is written.
        """
        self._index.store_scales(layer_id, loc, scale)

    def _index_planes(self) -> IndexPlanes:
        planes = super()._index_planes()
        self.index_k_scale_buffer = [layer.cache.squeeze(-1) for layer in planes.scale_layers]
        return planes


def _keyed(layers: OwnedLayers, asked: Sequence[int] | None) -> tuple[int, ...]:
    ids = layers.ids if asked is None else tuple(asked)
    if sorted(set(ids)) != list(ids) or not set(ids) <= set(layers.ids):
        raise ValueError(
            f"indexer_layer_ids={list(ids)}: must be ascending ids of {layers.start}.."
            f"{layers.end} (exclusive)"
        )
    return ids


def _is_packed(dtype: torch.dtype, widths: tuple[int, int], kv_cache_dim: int | None) -> bool:
    """Which rows `kv_cache_dim` asks for.

    :raises ValueError: for a width that no rows of this dtype have.
    """
    rank, rope = widths
    return isinstance(latent_format(dtype, rank, rope, kv_cache_dim), PackedLatent)


def _traits(dtype: torch.dtype, packed: bool, scheme: IndexScheme) -> PoolTraits:
    told = replace(
        split_traits(dtype, "latent_split"),
        kind="dsa",
        index_scheme=scheme,
        state_index_space="kv_pages",
    )
    return replace(told, quant_scheme="dsa_fp8_packed") if packed else told
