"""What leaves of latent rows share, whether the parts of a row lie apart or packed."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from kvproto.protocols import AttentionLayer, BufferRegion, PoolTraits, WriteLocation
from kvproto.reference.elements import check_geometry
from kvproto.reference.given_rows import given_rows
from kvproto.reference.latent_commit import LatentCommit
from kvproto.reference.layers import OwnedLayers
from kvproto.reference.row_leaf import locations_of, written_layer
from kvproto.reference.row_stores import TiledRows

from .packed_rows import PackedRows
from .plane_leaf import PlaneLeaf
from .split_buffers import MLASplitBuffers
from .split_rows import SplitRows

__all__ = ["LatentPlaneLeaf", "LatentRowPlanes"]

LatentRowPlanes: TypeAlias = SplitRows | PackedRows


class LatentPlaneLeaf(LatentCommit, PlaneLeaf):
    """Latent rows in planes: the doors; a leaf allocates the planes (`_hold`) and says what it is.

    :raises ValueError: for impossible geometry.
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
        widths: tuple[int, int],
        device: str | torch.device,
        layers: OwnedLayers,
    ) -> None:
        self.kv_lora_rank, self.qk_rope_head_dim = widths
        check_geometry(size=size, page_size=page_size, kv_lora_rank=self.kv_lora_rank)
        if self.qk_rope_head_dim < 0:
            raise ValueError(f"qk_rope_head_dim={self.qk_rope_head_dim}: must be at least 0")
        super().__init__(size, page_size, dtype, device, layers)

    def _hold(self, rows: LatentRowPlanes) -> None:
        self._rows, self.kv_cache_dim = rows, rows.width
        self.k_buffer, self.v_buffer = (plane.layers() for plane in rows.shown)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The latent parts of a layer in `dtype`, or packed rows, by page: an alias."""
        return self.k_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The rope parts of a layer in `dtype`, by page, without width beside packed rows."""
        return self.v_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both buffers of a layer."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def get_hicache_transfer_buffers(self) -> MLASplitBuffers:
        """Every plane, for a host tier to exchange pages."""
        latent, rope = self._rows.shown
        return MLASplitBuffers(
            k=latent.by_page(),
            v=rope.by_page(),
            k_width=latent.shape.width,
            v_width=rope.shape.width,
        )

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
        local, loc = self._target(layer, loc_info, layer_id_override)
        n = loc.shape[0]
        if rope and cache_k.shape[-1] == rank and cache_v is not None:
            latent = given_rows(cache_k, n, 1, rank, "cache_k")
            tail = given_rows(cache_v, n, 1, rope, "cache_v")
        else:
            row = given_rows(cache_k, n, 1, rank + rope, "cache_k")
            latent, tail = row[..., :rank], row[..., rank:]
        self._rows.store(local, loc, latent, tail)

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
        local, loc = self._target(layer, loc_info, layer_id_override)
        n = loc.shape[0]
        latent = given_rows(cache_k_nope, n, 1, self.kv_lora_rank, "cache_k_nope")
        rope = given_rows(cache_k_rope, n, 1, self.qk_rope_head_dim, "cache_k_rope")
        self._rows.store(local, loc, latent, rope)

    def _target(
        self, layer: AttentionLayer | None, loc_info: Tensor | WriteLocation, override: int | None
    ) -> tuple[int, Tensor]:
        return self._layers.local(written_layer(layer, override)), locations_of(loc_info)

    def get_mla_kv_buffer(
        self, layer: AttentionLayer, loc: Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The parts at `[n]` locations in `dst_dtype`; None is `dtype`, of packed rows bfloat16.

        Fresh tensors `[n, 1, width]`; zeros for locations of 0 and below, and on a device
        for those past the last row.

        :raises IndexError: on CPU, for a location past the last row.
        """
        local = self._fenced(layer.layer_id)
        dtype = self._rows.read_dtype if dst_dtype is None else dst_dtype
        return self._rows.load(local, self._bounded(loc), dtype)

    def _planes(self) -> list[Tensor]:
        return [plane.tensor for plane in self._rows.planes]

    def _stores(self) -> list[TiledRows]:
        return self._rows.stores()

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        return self._rows.regions(self._layers.ids) if self.layer_num else ()

    def get_kv_size_bytes(self) -> int:
        """Bytes of all planes, the reserved page included: one number, a row is both sides."""
        return sum(plane.nbytes for plane in self._planes())
