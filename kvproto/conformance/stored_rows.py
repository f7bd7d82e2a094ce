"""Stored rows put together from their parts, and taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from kvproto.protocols import KVPool, MLALatent

__all__ = ["Side", "dequantised", "in_meaning", "side_by_side"]

Side: TypeAlias = Literal["key", "value"]


def dequantised(elements: Tensor, scales: Tensor) -> Tensor:
    """Elements times the scale of their block, float32."""
    block = elements.shape[-1] // scales.shape[-1]
    return elements.float() * scales.repeat_interleave(block, dim=-1)


def in_meaning(pool: KVPool, side: Side, rows: Tensor) -> Tensor:
    """Stored rows as they are, packed latent ones dequantised to float32."""
    if side == "key" and isinstance(pool, MLALatent):
        width = pool.kv_lora_rank + pool.qk_rope_head_dim
        if rows.shape[-1] != width and rows.shape[-1] == pool.kv_cache_dim:
            return _unpacked(rows.view(torch.uint8), pool.kv_lora_rank, width)
    return rows


def _unpacked(rows: Tensor, rank: int, width: int) -> Tensor:
    # Bytes of latents, of their float32 scales, then of bfloat16 rope.
    rope_at = rows.shape[-1] - 2 * (width - rank)
    elements, scales, rope = (
        part.contiguous()
        for part in (rows[..., :rank], rows[..., rank:rope_at], rows[..., rope_at:])
    )
    latent = dequantised(elements.view(torch.float8_e4m3fn), scales.view(torch.float32))
    return torch.cat([latent, rope.view(torch.bfloat16).float()], dim=-1)


def side_by_side(parts: Sequence[Tensor]) -> Tensor:
    """The bytes of each token, part after part: uint8 `[tokens, bytes]`."""
    return torch.cat([part.contiguous().view(torch.uint8).flatten(1) for part in parts], dim=1)
