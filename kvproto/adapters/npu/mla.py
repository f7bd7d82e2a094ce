"""Latent attention: the latent and the rope part of a row in planes of their own."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from kvproto.protocols import AttentionLayer, BufferRegion, PoolTraits, WriteLocation
from kvproto.reference.elements import FP8_VARIANT_OF, check_element, check_geometry
from kvproto.reference.given_rows import given_rows
from kvproto.reference.latent_commit import LatentCommit
from kvproto.reference.layers import OwnedLayers
from kvproto.reference.memory_saver import kv_cache_region
from kvproto.reference.row_leaf import locations_of, written_layer
from kvproto.reference.row_stores import RowStore

from .plane_leaf import PlaneLeaf
from .planes import Order, PlaneShape, misfit
from .split_rows import SplitRows

__all__ = ["ORDERS", "LatentLayout", "NPUMLALeaf"]

LatentLayout: TypeAlias = Literal["latent_split", "latent_split_nz"]

ORDERS: dict[LatentLayout, Order] = {"latent_split": "nd", "latent_split_nz": "nz"}
"""In which order pages of a plane lie, by layout."""


class NPUMLALeaf(LatentCommit, PlaneLeaf):
    """Latent parts `[layers, pages, page_size, 1, kv_lora_rank]`, rope parts likewise.

    `pages` is `size / page_size + 1`: page 0 is reserved. The constructor takes the keywords in use
    today, and `kv_cache_layout`: `latent_split`, or `latent_split_nz`, in which a page of either
    plane is `[width / c0, page_size, c0]`, c0 being 32 bytes of elements. `get_key_buffer` shows
    latents and `get_value_buffer` rope parts, of a layer, by page, as Ascend attention takes them.
    fp8 is stored as bytes (`store_dtype` uint8) and saturated; one row is key and value, so that
    there are no scales. `end_layer` is exclusive.

    The layouts are what Ascend attention reads today, from its callers' source, but for c0 of
    elements of one byte, which those take for 16; it was not run on hardware here.

    :raises ValueError: for impossible geometry, or rows that are no whole blocks in NZ order,
        before anything is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    kv_lora_rank: int
    qk_rope_head_dim: int
    kv_cache_dim: int
    k_buffer: list[Tensor]
    v_buffer: list[Tensor]
    pool_traits: PoolTraits

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        kv_lora_rank: int,
        qk_rope_head_dim: int,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool = False,
        start_layer: int | None = None,
        end_layer: int | None = None,
        kv_cache_layout: LatentLayout = "latent_split",
    ) -> None:
        check_geometry(size=size, page_size=page_size, kv_lora_rank=kv_lora_rank)
        if qk_rope_head_dim < 0:
            raise ValueError(f"qk_rope_head_dim={qk_rope_head_dim}: must be at least 0")
        check_element(dtype)
        widths = kv_lora_rank, qk_rope_head_dim
        if reason := misfit(ORDERS[kv_cache_layout], widths, dtype.itemsize):
            raise ValueError(reason)
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, device, layers)
        self.kv_lora_rank, self.qk_rope_head_dim = widths
        self.pool_traits = _traits(dtype, kv_cache_layout)
        latent, rope = (self._shape(width, ORDERS[kv_cache_layout]) for width in widths)
        with kv_cache_region(enable_memory_saver):
            self._rows = SplitRows.of_zeros((latent, rope), dtype, self.device)
        self.kv_cache_dim = self._rows.width
        self.k_buffer, self.v_buffer = self._rows.latent.layers(), self._rows.rope.layers()

    def _shape(self, width: int, order: Order) -> PlaneShape:
        return PlaneShape(self.layer_num, self._pages, self.page_size, 1, width, order)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The latent parts of a layer in `dtype`, by page in the leaf's order: an alias."""
        return self.k_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The rope parts of a layer in `dtype`, by page in the leaf's order: an alias."""
        return self.v_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both buffers of a layer."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_hicache_transfer_buffers(self) -> tuple[Tensor, Tensor]:
        """Latent and rope parts of all layers, in the store dtype, for a host tier.

        `[layers, pages, page_size, 1, width]`, or in NZ order, each in one run of bytes.
        """
        return self._rows.latent.tensor, self._rows.rope.tensor

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor | None,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """Store a row per location, `[n, 1, kv_lora_rank + qk_rope_head_dim]`, as `KVLeaf` says.

        Or its parts, as Ascend attention has them: `cache_k` `[n, 1, kv_lora_rank]` and `cache_v`
        `[n, 1, qk_rope_head_dim]`. Beside a whole row `cache_v` is not looked at.
        """
        rank, rope = self.kv_lora_rank, self.qk_rope_head_dim
        if rope and cache_k.shape[-1] == rank and cache_v is not None:
            latent, tail = cache_k, cache_v
        else:
            n = locations_of(loc_info).shape[0]
            row = given_rows(cache_k, n, 1, rank + rope, "cache_k")
            latent, tail = row[..., :rank], row[..., rank:]
        self.set_mla_kv_buffer(layer, loc_info, latent, tail, layer_id_override=layer_id_override)

    def set_mla_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k_nope: Tensor,
        cache_k_rope: Tensor,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """Store a row per location from its two parts, as `MLALatent` says."""
        local = self._layers.local(written_layer(layer, layer_id_override))
        loc = locations_of(loc_info)
        n = loc.shape[0]
        latent = given_rows(cache_k_nope, n, 1, self.kv_lora_rank, "cache_k_nope")
        rope = given_rows(cache_k_rope, n, 1, self.qk_rope_head_dim, "cache_k_rope")
        self._rows.store(local, loc, latent, rope)

    def get_mla_kv_buffer(
        self, layer: AttentionLayer, loc: Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The parts at `[n]` locations in `dst_dtype`, of which None is `dtype`.

        Fresh tensors `[n, 1, width]`; zeros for locations of 0 and below.

        :raises IndexError: on CPU, for a location past the last row.
        """
        local = self._fenced(layer.layer_id)
        self._check(loc)
        dtype = self._rows.read_dtype if dst_dtype is None else dst_dtype
        return self._rows.load(local, loc, dtype)

    def _planes(self) -> list[Tensor]:
        return [plane.tensor for plane in self._rows.planes]

    def _stores(self) -> list[RowStore]:
        return self._rows.stores()

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """Latent parts, then rope parts where there are some; none for a stage without layers."""
        return self._rows.regions(self._layers.ids) if self.layer_num else ()

    def get_kv_size_bytes(self) -> int:
        """Bytes of both planes, the reserved page included: one number, a row is both sides."""
        return sum(plane.nbytes for plane in self._planes())


def _traits(dtype: torch.dtype, layout: LatentLayout) -> PoolTraits:
    variant = FP8_VARIANT_OF.get(dtype, "none")
    return PoolTraits(
        kind="mla",
        layout=layout,
        quant_scheme="none" if variant == "none" else "fp8_scaled",
        fp8_variant=variant,
        replication="tp_replicated",
        transfer_layout="component_groups",
    )
