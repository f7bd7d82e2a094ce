"""Latent attention: the latent and the rope part of a row in planes of their own."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

from kvproto.protocols import PoolTraits
from kvproto.reference.elements import FP8_VARIANT_OF
from kvproto.reference.layers import OwnedLayers
from kvproto.reference.memory_saver import kv_cache_region

from .kept import check_layout
from .latent_leaf import LatentPlaneLeaf
from .planes import Order, misfit
from .split_rows import SplitRows

__all__ = ["ORDERS", "LatentLayout", "NPUMLALeaf", "split_traits"]

LatentLayout: TypeAlias = Literal["latent_split", "latent_split_nz"]

ORDERS: dict[LatentLayout, Order] = {"latent_split": "nd", "latent_split_nz": "nz"}
"""In which order pages of a plane lie, by layout."""


class NPUMLALeaf(LatentPlaneLeaf):
    """Latent parts `[layers, pages, page_size, 1, kv_lora_rank]`, rope parts likewise.

    `pages` is `size / page_size + 1`: page 0 is reserved. The constructor takes the keywords in use
    today, and `kv_cache_layout`: `latent_split`, or `latent_split_nz`, in which a page of either
    plane is `[width / c0, page_size, c0]`, c0 being 32 bytes of elements. `get_key_buffer` shows
    latents and `get_value_buffer` rope parts, of a layer, by page, as Ascend attention takes them.
    fp8 is stored as bytes (`store_dtype` uint8) and saturated; one row is key and value, so that
    there are no scales. `end_layer` is exclusive.

    The layouts are what Ascend attention reads today, from its callers' source, but for c0 of
    elements of one byte, which those take for 16; it was not run on hardware here.

    :raises ValueError: for impossible geometry, another layout, fp8 but e4m3fn, or rows that are no
        whole blocks in NZ order, before anything is allocated.
    """

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
        check_layout(kv_cache_layout, ORDERS)
        order, widths = ORDERS[kv_cache_layout], (kv_lora_rank, qk_rope_head_dim)
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, widths, device, layers)
        if reason := misfit(order, widths, dtype.itemsize):
            raise ValueError(reason)
        self.pool_traits = split_traits(dtype, kv_cache_layout)
        shapes = self._shape(kv_lora_rank, order), self._shape(qk_rope_head_dim, order)
        with kv_cache_region(enable_memory_saver):
            self._hold(SplitRows.of_zeros(shapes, dtype, self.device))


def split_traits(dtype: torch.dtype, layout: LatentLayout) -> PoolTraits:
    """The traits of latent rows in two planes: the same on every tensor-parallel rank."""
    variant = FP8_VARIANT_OF.get(dtype, "none")
    return PoolTraits(
        kind="mla",
        layout=layout,
        quant_scheme="none" if variant == "none" else "fp8_scaled",
        fp8_variant=variant,
        replication="tp_replicated",
        transfer_layout="component_groups",
    )
