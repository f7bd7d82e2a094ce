"""Drafts of which the accepted ones are stored, where every leaf can do it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from torch import Tensor

from kvproto.kernels import prefix_locations
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, PrefixValidCommit, supports

from .composite_pool import CompositePool
from .sides import Side

__all__ = ["PrefixDoor"]


class PrefixDoor(CompositePool):
    """`PrefixValidCommit`, over leaves that all have it; slots are of the caller's space."""

    label = "PrefixValidCommit"

    @classmethod
    def fits(cls, sides: Sequence[Side], /) -> bool:
        """Can every leaf store a prefix of drafts?"""
        return all(supports(side.leaf, PrefixValidCommit) for side in sides)

    def set_kv_buffer_prefix_valid(
        self,
        layer: AttentionLayer,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Tensor,
        cache_v: Tensor,
        /,
        k_scale: Scale = None,
        v_scale: Scale = None,
    ) -> None:
        """Store the accepted drafts in the layer's leaf; the others are not translated either."""
        place = self._place(layer.layer_id)
        kept = prefix_locations(loc_2d, commit_lens).view(loc_2d.shape)
        leaf = cast("PrefixValidCommit", place.leaf)
        leaf.set_kv_buffer_prefix_valid(
            place, self._locations(place, kept), commit_lens, cache_k, cache_v, k_scale, v_scale
        )
