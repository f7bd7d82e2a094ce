"""The writer of accepted drafts, for leaves of latent rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor

from kvproto.kernels import prefix_locations
from kvproto.kernels.fp8 import Scale
from kvproto.protocols import AttentionLayer, WriteLocation

__all__ = ["LatentCommit"]


class LatentCommit(ABC):
    """`PrefixValidCommit` by the leaf's plain write, to the locations that are kept."""

    @abstractmethod
    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor | None,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """The leaf's own."""

    def set_kv_buffer_prefix_valid(
        self,
        layer: AttentionLayer | None,
        loc_2d: Tensor,
        commit_lens: Tensor,
        cache_k: Tensor,
        cache_v: Tensor | None,
        k_scale: Scale = None,
        v_scale: Scale = None,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """Store the accepted first drafts of each request, as `PrefixValidCommit` says.

        :raises ValueError: for a scale: a latent row is stored as it is, or with scales of its own.
        """
        if k_scale is not None or v_scale is not None:
            raise ValueError(
                "set_kv_buffer_prefix_valid: latent rows take no scale, k_scale and v_scale must "
                "be None; nothing was written"
            )
        loc = prefix_locations(loc_2d, commit_lens)
        self.set_kv_buffer(layer, loc, cache_k, cache_v, layer_id_override=layer_id_override)
