"""Latent attention in four bits: E2M1 rows, a power of two for every 16 elements."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kvproto.kernels import (
    FP4_BLOCK,
    FP8_DTYPES,
    dequantise_fp4,
    gather_rows,
    prepare_moves,
    store_block_scaled_rows,
    to_fp8,
)
from kvproto.protocols import AttentionLayer, BufferRegion, PoolTraits, WriteLocation, row_major

from .block_layout import latent_block_traits, packed_latent_region, scale_region
from .elements import check_geometry
from .fp4 import check_fp4
from .given_rows import given_rows
from .latent_commit import LatentCommit
from .layers import OwnedLayers
from .memory_saver import kv_cache_region
from .row_leaf import RowLeaf, locations_of, written_layer

__all__ = ["MLAFP4Leaf"]

_SCHEME: Literal["fp4_mx16"] = "fp4_mx16"


class MLAFP4Leaf(LatentCommit, RowLeaf):
    """A leaf of packed latent rows `[size + page_size, 1, kv_cache_dim]`, latent first, in bytes.

    `kv_cache_dim` is half of both widths. Scales are `kv_scale_buffer`, UE8M0 bytes
    `[size + page_size, both widths // 16]`. Read doors return a fresh bfloat16 copy, dequantised;
    a value is the first `kv_lora_rank` elements of it. Transfer descriptors list the rows of
    all layers, then the scales of all layers. The constructor takes the keywords in use today;
    `dtype` is `torch.float4_e2m1fn_x2`.

    :raises ValueError: for another dtype, widths that are not whole blocks, or impossible
        geometry, before anything is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    kv_lora_rank: int
    qk_rope_head_dim: int
    kv_cache_dim: int
    kv_buffer: list[Tensor]
    kv_scale_buffer: list[Tensor]
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
    ) -> None:
        widths = {"kv_lora_rank": kv_lora_rank, "qk_rope_head_dim": qk_rope_head_dim}
        check_geometry(size=size, page_size=page_size, kv_lora_rank=kv_lora_rank)
        if qk_rope_head_dim < 0:
            raise ValueError(f"qk_rope_head_dim={qk_rope_head_dim}: must be at least 0")
        check_fp4(dtype, **widths)
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, device, layers)
        self.store_dtype = torch.uint8
        self.kv_lora_rank, self.qk_rope_head_dim = kv_lora_rank, qk_rope_head_dim
        self.kv_cache_dim = (kv_lora_rank + qk_rope_head_dim) // 2
        self.pool_traits = latent_block_traits(_SCHEME)
        with kv_cache_region(enable_memory_saver):
            self.kv_buffer = self._zeros(1, self.kv_cache_dim)
            self.kv_scale_buffer = self._zeros(2 * self.kv_cache_dim // FP4_BLOCK)
        prepare_moves((*self.kv_buffer, *self.kv_scale_buffer))
        self._one = torch.ones((), device=self.device)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, 1, kv_lora_rank + qk_rope_head_dim]` bfloat16, a fresh copy."""
        local = self._fenced(layer_id)
        return self._read(self.kv_buffer[local], self.kv_scale_buffer[local], torch.bfloat16)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The first `kv_lora_rank` elements of each row, bfloat16; a view of a fresh copy."""
        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """One copy of a layer, and the values as its prefix."""
        rows = self.get_key_buffer(layer_id)
        return rows, rows[..., : self.kv_lora_rank]

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor | None,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """Quantise and store `cache_k`, `[n, 1, kv_lora_rank + qk_rope_head_dim]`, by location.

        `cache_v` is a part of the row and not looked at. `layer_id_override` is a global id
        that goes before the layer's own; with it `layer` may be None. As `KVLeaf` otherwise.
        """
        local, loc = self._target(layer, loc_info, layer_id_override)
        width = self.kv_lora_rank + self.qk_rope_head_dim
        self._store(local, loc, given_rows(cache_k, loc.shape[0], 1, width, "cache_k"))

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
        self._store(local, loc, torch.cat([latent, rope], dim=-1))

    def get_mla_kv_buffer(
        self, layer: AttentionLayer, loc: Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The parts at `[n]` locations, dequantised to `dst_dtype`, None meaning bfloat16.

        Zeros for 0 and below.

        :raises IndexError: on CPU, for a location past the last row.
        """
        local = self._fenced(layer.layer_id)
        self._check(loc)
        elements = gather_rows(self.kv_buffer[local], loc)
        scales = gather_rows(self.kv_scale_buffer[local], loc)
        dtype = torch.bfloat16 if dst_dtype is None else dst_dtype
        if dtype in FP8_DTYPES:
            rows = to_fp8(self._read(elements, scales, torch.float32), dtype)
        else:
            rows = self._read(elements, scales, dtype)
        rank = self.kv_lora_rank
        return rows[..., :rank].contiguous(), rows[..., rank:].contiguous()

    def _target(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        override: int | None,
    ) -> tuple[int, Tensor]:
        local, loc = self._layers.local(written_layer(layer, override)), locations_of(loc_info)
        self._check(loc)
        return local, loc

    def _store(self, local: int, loc: Tensor, rows: Tensor) -> None:
        targets = self.kv_buffer[local], self.kv_scale_buffer[local]
        store_block_scaled_rows(loc, [(*targets, rows, self._one)], _SCHEME)

    def _read(self, elements: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
        return dequantise_fp4(elements, scales.unsqueeze(1), _SCHEME, self._one, dtype)

    def _row_buffers(self) -> list[Tensor]:
        return [*self.kv_buffer, *self.kv_scale_buffer]

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        layers, page = self._layers.ids, self.page_size
        widths = self.kv_lora_rank // 2, self.qk_rope_head_dim // 2
        groups = row_major("uint8", ("token", page), ("group", 2 * sum(widths) // FP4_BLOCK))
        return (
            packed_latent_region(widths, self.kv_buffer, layers, page),
            scale_region("scale", _SCHEME, groups, self.kv_scale_buffer, layers),
        )

    def get_kv_size_bytes(self) -> int:
        """Bytes of rows and scales, the reserved page included: one number, a row is both sides."""
        return sum(buffer.nbytes for buffer in self._row_buffers())
