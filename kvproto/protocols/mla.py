"""Latent attention: one row per token, shared by all heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor, dtype

    from .layer import AttentionLayer, WriteLocation

__all__ = ["LatentRows", "MLALatent"]


@runtime_checkable
class MLALatent(Capability, Protocol):
    """Does the pool keep a latent part and a rope part per token, instead of heads?"""

    @property
    def kv_lora_rank(self) -> int:
        """Width of the latent part, in elements before any packing."""
        ...

    @property
    def qk_rope_head_dim(self) -> int:
        """Width of the rope part, in elements before any packing."""
        ...

    @property
    def kv_cache_dim(self) -> int:
        """Width of a stored row, in elements of the store dtype: both parts, packed scales too.

        512 and 64 are 576 in one dtype, and 656 packed: 512 fp8, 4 float32 scales, 64 bf16.
        """
        ...

    def set_mla_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k_nope: Tensor,
        cache_k_rope: Tensor,
        /,
    ) -> None:
        """Store one row per location from its two parts, for the layer `layer.layer_id`.

        `cache_k_nope` is `[n, 1, kv_lora_rank]` or `[n, kv_lora_rank]`, `cache_k_rope` the same
        with `qk_rope_head_dim`, of any float dtype and strides (often slices of one tensor);
        they are not modified. What is stored is what `KVPool.set_kv_buffer` stores for the two
        side by side: latent first, fp8 saturated, packed rows quantized, zeros as zero bytes.
        Locations mean what they do there: those of 0 and below are dropped.

        :raises ValueError: for a layer the pool does not own, or parts of another width.
        :raises IndexError: on CPU, for a location past the last row; nothing is written.
        """
        ...

    def get_mla_kv_buffer(
        self, layer: AttentionLayer, loc: Tensor, /, dst_dtype: dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The rows at `[n]` locations as `([n, 1, kv_lora_rank], [n, 1, qk_rope_head_dim])`.

        Fresh tensors of `dst_dtype`; where that is None of the pool's dtype, and of bfloat16
        where the rows are packed, which are dequantized either way. A cast to fp8 saturates.
        Locations of 0 and below give zeros. `n == 0` is legal. Waits like every read door.

        :raises ValueError: for a layer the pool does not own.
        :raises IndexError: on CPU, for a location past the last row.
        """
        ...


@runtime_checkable
class LatentRows(MLALatent, Protocol):
    """Are the two parts of a token one row of one tensor per layer?

    Pools that split latent and rope into tensors of their own are `MLALatent` only.
    """

    @property
    def kv_buffer(self) -> Sequence[Tensor]:
        """One tensor per owned layer, local order: `[size + page_size, 1, kv_cache_dim]`.

        In the store dtype. A row may be a strided view into a larger allocation.
        """
        ...
