"""Configs without `layer_types`, from which both sides say which layers attend to a window."""

from __future__ import annotations

from typing import Any

__all__ = ["WINDOW_CASES"]

_SWITCHED_ON = {"use_sliding_window": True, "sliding_window": 4096}

WINDOW_CASES: dict[str, dict[str, Any]] = {
    "afmoe": {"model_type": "afmoe"},
    "afmoe by 3": {"model_type": "afmoe", "global_attn_every_n_layers": 3},
    "cohere2": {"model_type": "cohere2"},
    "cohere2 by 3": {"model_type": "cohere2", "sliding_window_pattern": 3},
    "cwm": {"model_type": "cwm"},
    "dots1": {"model_type": "dots1", "max_window_layers": 5},
    "embedding_gemma2_text": {"model_type": "embedding_gemma2_text"},
    "exaone4": {"model_type": "exaone4"},
    "exaone4 by 5": {"model_type": "exaone4", "sliding_window_pattern": 5},
    "exaone_moe": {"model_type": "exaone_moe"},
    "gemma2": {"model_type": "gemma2"},
    "gemma2, a pattern of no effect": {"model_type": "gemma2", "sliding_window_pattern": 5},
    "gemma3_text": {"model_type": "gemma3_text"},
    "gemma3_text by 4": {"model_type": "gemma3_text", "sliding_window_pattern": 4},
    "gemma3n_text": {"model_type": "gemma3n_text", "num_kv_shared_layers": 0},
    "gemma4_text": {"model_type": "gemma4_text"},
    "gpt_oss": {"model_type": "gpt_oss"},
    "llama4_text": {"model_type": "llama4_text", "attention_chunk_size": 64},
    "mimo_v2_flash": {"model_type": "mimo_v2_flash"},
    "ministral": {"model_type": "ministral"},
    "olmo3": {"model_type": "olmo3"},
    "qwen2": {"model_type": "qwen2", "max_window_layers": 9} | _SWITCHED_ON,
    "qwen2 by default": {"model_type": "qwen2"} | _SWITCHED_ON,
    "qwen2 switched off": {"model_type": "qwen2", "use_sliding_window": False},
    "qwen2, nothing said": {"model_type": "qwen2", "max_window_layers": 9},
    "qwen2_moe": {"model_type": "qwen2_moe", "max_window_layers": 9} | _SWITCHED_ON,
    "qwen2_vl": {"model_type": "qwen2_vl_text", "max_window_layers": 9} | _SWITCHED_ON,
    "qwen2_5_vl": {"model_type": "qwen2_5_vl_text", "max_window_layers": 9} | _SWITCHED_ON,
    "qwen3": {"model_type": "qwen3", "max_window_layers": 0} | _SWITCHED_ON,
    "smollm3": {"model_type": "smollm3"} | _SWITCHED_ON,
    "vaultgemma": {"model_type": "vaultgemma"},
}
"""By name. Each has 16 layers and, but where it says more, a window of 4096 tokens."""
for _config in WINDOW_CASES.values():
    _config.setdefault("sliding_window", 4096)
    _config["num_hidden_layers"] = 16
