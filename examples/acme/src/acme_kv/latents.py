"""Latent attention: one row a token, key and value at once."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels import to_fp8
from kvproto.protocols import (
    AttentionLayer,
    DSALeafRequest,
    FieldName,
    MLALeafRequest,
    PoolTraits,
    WriteLocation,
)

from .leaf import AcmeLeaf, locations
from .records import Row
from .rows import load_rows, store_rows

__all__ = ["AcmeLatents"]


class AcmeLatents(AcmeLeaf):
    """Latent part first, then the rope part: `[slots, 1, kv_lora_rank + qk_rope_head_dim]`."""

    kv_buffer: list[Tensor]
    kv_lora_rank: int
    qk_rope_head_dim: int
    kv_cache_dim: int
    pool_traits = PoolTraits(
        kind="mla",
        layout="latent_rows",
        replication="tp_replicated",
        transfer_layout="page_envelope",
    )

    def __init__(self, request: MLALeafRequest | DSALeafRequest) -> None:
        self.kv_lora_rank, self.qk_rope_head_dim = request.kv_lora_rank, request.qk_rope_head_dim
        pieces: dict[FieldName, int] = {"latent": self.kv_lora_rank}
        if self.qk_rope_head_dim:
            pieces["rope"] = self.qk_rope_head_dim
        self.kv_cache_dim = sum(pieces.values())
        super().__init__(request, (Row(pieces),))
        self.kv_buffer = self._records.views(0)

    def get_key_buffer(self, layer_id: int, /) -> Tensor:
        """The rows of a layer."""
        return self.kv_buffer[self._loaded(layer_id)]

    def get_value_buffer(self, layer_id: int, /) -> Tensor:
        """Their latent parts."""
        return self.get_key_buffer(layer_id)[..., : self.kv_lora_rank]

    def get_kv_buffer(self, layer_id: int, /) -> tuple[Tensor, Tensor]:
        """Both, over the same rows."""
        rows = self.get_key_buffer(layer_id)
        return rows, rows[..., : self.kv_lora_rank]

    def set_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k: Tensor,
        cache_v: Tensor | None,
        /,
    ) -> None:
        """Whole rows to slots; `cache_v` is a part of `cache_k`."""
        target = self.kv_buffer[self._local(layer.layer_id)]
        store_rows([target], locations(loc_info), [cache_k])

    def set_mla_kv_buffer(
        self,
        layer: AttentionLayer,
        loc_info: Tensor | WriteLocation,
        cache_k_nope: Tensor,
        cache_k_rope: Tensor,
        /,
    ) -> None:
        """The same from two parts, `[n, 1, width]` or `[n, width]`."""
        target = self.kv_buffer[self._local(layer.layer_id)]
        parts = target[..., : self.kv_lora_rank], target[..., self.kv_lora_rank :]
        given = [p.unsqueeze(1) if p.dim() == 2 else p for p in (cache_k_nope, cache_k_rope)]
        store_rows(parts, locations(loc_info), given)

    def get_mla_kv_buffer(
        self, layer: AttentionLayer, loc: Tensor, /, dst_dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The two parts of the rows at `loc`; zeros for slots of 0 and below."""
        rows = load_rows(self.kv_buffer[self._loaded(layer.layer_id)], loc)
        rows = rows if dst_dtype is None else _as(dst_dtype, rows)
        return rows[..., : self.kv_lora_rank], rows[..., self.kv_lora_rank :]

    def get_kv_size_bytes(self) -> int:
        """One number: a row is key and value."""
        return self._nbytes


def _as(dtype: torch.dtype, rows: Tensor) -> Tensor:
    return to_fp8(rows, dtype) if dtype.itemsize == 1 else rows.to(dtype)
