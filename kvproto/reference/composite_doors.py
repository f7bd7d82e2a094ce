"""Doors that a composite has when its leaves have them: heads, latent rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from kvproto.protocols import (
    AttentionLayer,
    MHARows,
    MLALatent,
    WriteLocation,
    supports,
)

from .composite_pool import CompositePool
from .sides import Side

__all__ = ["HeadGeometry", "LatentDoors"]


class HeadGeometry(CompositePool):
    """Heads and widths without naming a layer, where the lead leaf has rows by head.

    They are the full side's, or the window side's where no layer is full: leaves may differ,
    ask them for the others.
    """

    label = "heads"
    # The rows are the leaves': declared as not supported, so that this is no half of `MHARows`.
    k_buffer: None = None
    v_buffer: None = None

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Has the lead leaf rows by head?"""
        return supports(sides[0].leaf, MHARows)

    @property
    def _heads(self) -> MHARows:
        return cast("MHARows", self.lead)

    @property
    def head_num(self) -> int:
        """KV heads of the lead leaf on this rank."""
        return self._heads.head_num

    @property
    def head_dim(self) -> int:
        """Width of a key head of the lead leaf."""
        return self._heads.head_dim

    @property
    def v_head_dim(self) -> int:
        """Width of a value head of the lead leaf."""
        return self._heads.v_head_dim

    def get_v_head_dim(self) -> int:
        """The width that attention sees in the lead leaf's value buffers."""
        return self._heads.get_v_head_dim()


class LatentDoors(CompositePool):
    """`MLALatent`, over leaves that all keep latent rows; widths are the lead leaf's."""

    label = "MLALatent"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Does every leaf keep latent rows?"""
        return all(supports(side.leaf, MLALatent) for side in sides)

    @property
    def _latent(self) -> MLALatent:
        return cast("MLALatent", self.lead)

    @property
    def kv_lora_rank(self) -> int:
        """Width of the latent part in the lead leaf."""
        return self._latent.kv_lora_rank

    @property
    def qk_rope_head_dim(self) -> int:
        """Width of the rope part in the lead leaf."""
        return self._latent.qk_rope_head_dim

    @property
    def kv_cache_dim(self) -> int:
        """Width of a stored row in the lead leaf."""
        return self._latent.kv_cache_dim

    def set_mla_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k_nope: Tensor,
        cache_k_rope: Tensor,
        /,
    ) -> None:
        """Store one row per location from its two parts, in the layer's leaf."""
        place = self._place(layer.layer_id)
        leaf = cast("MLALatent", place.leaf)
        loc = self._locations(place, loc_info)
        leaf.set_mla_kv_buffer(place, loc, cache_k_nope, cache_k_rope)

    def get_mla_kv_buffer(
        self, layer: AttentionLayer, loc: Tensor, /, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The rows at `[n]` locations of the caller's space; no peer reads like location 0."""
        place = self._place(layer.layer_id)
        leaf = cast("MLALatent", place.leaf)
        return leaf.get_mla_kv_buffer(place, self._locations(place, loc), dst_dtype=dst_dtype)
