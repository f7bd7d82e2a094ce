"""Where the three parts of a packed latent row lie."""

from __future__ import annotations

__all__ = ["LATENT_BLOCK", "packed_latent_width", "scales_at"]

LATENT_BLOCK = 128
"""Latent elements that share one float32 scale."""


def scales_at(rank: int) -> int:
    """The byte after the latent part, where the scales begin.

    :raises ValueError: for a rank that is not whole blocks.
    """
    if rank < 1 or rank % LATENT_BLOCK:
        raise ValueError(f"kv_lora_rank={rank}: packed rows hold whole blocks of {LATENT_BLOCK}")
    return rank


def packed_latent_width(rank: int, rope: int) -> int:
    """Bytes of a row: `rank` fp8 latents, a float32 per block of them, `rope` bf16 elements.

    512 and 64 make 512 + 16 + 128 = 656.
    """
    return scales_at(rank) + 4 * (rank // LATENT_BLOCK) + 2 * rope
