"""Geometries that both sides lay out."""

from __future__ import annotations

from typing import Any

__all__ = ["DRAFT", "HOSTS", "RANKS", "SPLIT"]

RANKS = 4
_DSA: dict[str, Any] = {
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "layer_num": 2,
    "index_head_dim": 128,
    "kv_cache_dim": 576,
}
SPLIT: dict[str, dict[str, Any]] = {
    "one rank's rows": _DSA | {"size": 256, "page_size": 64},
    "all rows": _DSA | {"size": 1024, "page_size": 64 * RANKS, "dcp_replicated": True},
}
"""DSA pools by the keywords of their constructor."""

HOSTS: dict[str, dict[str, Any]] = {
    "heads": {"layer_num": 3, "head_num": 2, "head_dim": 64, "v_head_dim": 64},
    "odd heads": {"layer_num": 3, "head_num": 1, "head_dim": 4, "v_head_dim": 8},
    "latents": {"layer_num": 5, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
}
"""Pools whose slots are lent from one buffer."""

DRAFT: dict[str, Any] = {"lane_num": 1, "head_num": 1, "head_dim": 29, "v_head_dim": 29}
"""Rows of a draft in those slots; their place and the slot are padded."""
