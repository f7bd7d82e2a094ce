"""Latent attention: one row per token and layer, latent part first, shared by all heads."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import prepare_moves
from kvproto.kernels.to_stored import check_float
from kvproto.protocols import AttentionLayer, BufferRegion, PoolTraits, WriteLocation

from .device_pool_info import MLABufferInfo
from .elements import check_element, check_geometry
from .host_described import HostDescribed
from .latent_commit import LatentCommit
from .latent_format import PackedLatent, PlainLatent, latent_format
from .layers import OwnedLayers
from .memory_saver import kv_cache_region
from .mla_layout import latent_region, mla_traits
from .row_leaf import RowLeaf, locations_of, written_layer

__all__ = ["MLALeaf"]


class MLALeaf(HostDescribed, LatentCommit, RowLeaf):
    """A leaf of latent rows: buffers of `[size + page_size, 1, kv_cache_dim]`.

    The constructor takes the keywords in use today. `size` counts usable slots and is a
    multiple of `page_size`; page 0 is reserved on top of it. `end_layer` is exclusive. A value is
    the first `kv_lora_rank` elements of the key row. fp8 rows are stored as bytes (`store_dtype`
    uint8) and saturated to their own variant; there are no scales, since one row is key and value.
    `override_kv_cache_dim` is the row width where it is not the sum of the parts: the packed row
    of e4m3fn latents, float32 scales and bf16 rope (656 for 512 and 64), with `use_dsa`.

    :raises ValueError: for impossible geometry, before anything is allocated.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    kv_lora_rank: int
    qk_rope_head_dim: int
    kv_cache_dim: int
    kv_buffer: list[Tensor]
    use_dsa: bool
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
        use_dsa: bool = False,
        override_kv_cache_dim: int | None = None,
    ) -> None:
        check_geometry(size=size, page_size=page_size, kv_lora_rank=kv_lora_rank)
        if qk_rope_head_dim < 0:
            raise ValueError(f"qk_rope_head_dim={qk_rope_head_dim}: must be at least 0")
        check_element(dtype)
        row = latent_format(dtype, kv_lora_rank, qk_rope_head_dim, override_kv_cache_dim)
        if isinstance(row, PackedLatent) and not use_dsa:
            raise ValueError(
                f"override_kv_cache_dim={override_kv_cache_dim}: packed rows are those of sparse "
                "attention, pass use_dsa=True with them"
            )
        layers = OwnedLayers.of(layer_num, start_layer, end_layer)
        super().__init__(size, page_size, dtype, device, layers)
        self._row: PlainLatent | PackedLatent = row
        self.kv_lora_rank, self.qk_rope_head_dim = kv_lora_rank, qk_rope_head_dim
        self.kv_cache_dim, self.use_dsa = row.width, use_dsa
        self.pool_traits = mla_traits(row)
        with kv_cache_region(enable_memory_saver):
            self.kv_buffer = self._zeros(1, row.width)
        prepare_moves(self.kv_buffer)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """`[size + page_size, 1, kv_cache_dim]` in `dtype`, an alias of the storage.

        Packed rows are what is stored, byte for byte: `get_mla_kv_buffer` dequantises.
        """
        return self.kv_buffer[self._fenced(layer_id)].view(self.dtype)

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """The first `kv_lora_rank` elements of each key row, as stored: an alias, strided."""
        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both buffers of a layer, over the same rows."""
        return self.get_key_buffer(layer_id), self.get_value_buffer(layer_id)

    def set_kv_buffer(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor | None,
        *,
        layer_id_override: int | None = None,
    ) -> None:
        """Store a row per location from `cache_k`, `[n, 1, kv_lora_rank + qk_rope_head_dim]`.

        `cache_v` is a part of the row and not looked at. `layer_id_override` is a global id
        that goes before the layer's own; with it `layer` may be None. As `KVLeaf` otherwise.
        """
        local, loc = self._target(layer, loc_info, layer_id_override)
        width = self.kv_lora_rank + self.qk_rope_head_dim
        self._row.store_joined(self.kv_buffer[local], loc, _part(cache_k, loc, width, "cache_k"))

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
        latent = _part(cache_k_nope, loc, self.kv_lora_rank, "cache_k_nope")
        rope = _part(cache_k_rope, loc, self.qk_rope_head_dim, "cache_k_rope")
        self._row.store(self.kv_buffer[local], loc, latent, rope)

    def get_mla_kv_buffer(
        self, layer: AttentionLayer, loc: Tensor, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The parts at `[n]` locations in `dst_dtype`; zeros for 0 and below.

        None is `dtype`, and bfloat16 for packed rows, which no one dtype holds.

        :raises IndexError: on CPU, for a location past the last row.
        """
        local = self._fenced(layer.layer_id)
        self._check(loc)
        dtype = self._row.read_dtype if dst_dtype is None else dst_dtype
        return self._row.load(self.kv_buffer[local], loc, dtype)

    def _target(
        self,
        layer: AttentionLayer | None,
        loc_info: Tensor | WriteLocation,
        override: int | None,
    ) -> tuple[int, Tensor]:
        return self._layers.local(written_layer(layer, override)), locations_of(loc_info)

    def _row_buffers(self) -> list[Tensor]:
        return self.kv_buffer

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        return (latent_region(self._row, self.kv_buffer, self._layers.ids, self.page_size),)

    def _buffer_info(self) -> MLABufferInfo:
        return MLABufferInfo(
            buffers=tuple(self.kv_buffer),
            layer_indices=tuple(range(self.layer_num)),
            device_layer_num=self.layer_num,
            page_size=self.page_size,
            kv_lora_rank=self.kv_lora_rank,
            qk_rope_head_dim=self.qk_rope_head_dim,
            kv_cache_dim=self.kv_cache_dim,
            dtype=self.store_dtype,
            device=self.device,
            packed_fp8=isinstance(self._row, PackedLatent),
        )

    def get_kv_size_bytes(self) -> int:
        """Bytes of all buffers, the reserved page included: one number, a row is both sides."""
        return sum(buffer.nbytes for buffer in self.kv_buffer)


def _part(given: Tensor, loc: Tensor, width: int, name: str) -> Tensor:
    n = loc.shape[0]
    check_float(name, given)
    if given.shape == (n, 1, width):
        return given
    if given.shape == (n, width):
        return given.unsqueeze(1)
    raise ValueError(
        f"{name} has shape {tuple(given.shape)}, must be ({n}, 1, {width}) for {n} locations "
        f"and width {width}; nothing was written"
    )
