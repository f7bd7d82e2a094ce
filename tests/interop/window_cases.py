"""Configs from which both sides say where windows are, how long a context is, and of what type."""

from __future__ import annotations

from typing import Any

__all__ = ["CONTEXT_CASES", "ELEMENT_CASES", "WINDOW_CASES"]

_SWITCHED_ON = {"use_sliding_window": True, "sliding_window": 4096}
_GATED_DELTA = {
    "linear_num_value_heads": 32,
    "linear_num_key_heads": 16,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}
_INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 16,
}

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
    "qwen3_next": {"model_type": "qwen3_next"} | _GATED_DELTA,
    "qwen4_exp_text": {"model_type": "qwen4_exp_text"} | _GATED_DELTA | _INDEXER,
    "smollm3": {"model_type": "smollm3"} | _SWITCHED_ON,
    "vaultgemma": {"model_type": "vaultgemma"},
}
"""By name. Each has 16 layers and, but where it says more, a window of 4096 tokens."""
for _config in WINDOW_CASES.values():
    _config.setdefault("sliding_window", 4096)
    _config["num_hidden_layers"] = 16

_LLAMA = {"model_type": "llama", "max_position_embeddings": 4096}
CONTEXT_CASES: dict[str, dict[str, Any]] = {
    "plain": _LLAMA,
    "linear": _LLAMA | {"rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    "named type": _LLAMA | {"rope_scaling": {"type": "linear", "factor": 2.5}},
    "yarn": _LLAMA
    | {
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 1024,
        }
    },
    "llama3": _LLAMA
    | {
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 1024,
        }
    },
    "tokenizer's length": _LLAMA | {"model_max_length": 16384},
    "sequence": _LLAMA | {"model_max_length": 16384, "seq_length": 32768},
    "gpt2": {"model_type": "gpt2", "n_positions": 512},
    "gemma3_text": {
        "model_type": "gemma3_text",
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
    "gemma3n_text": {
        "model_type": "gemma3n_text",
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
}
"""By name: configs whose longest context sglang derives."""

_GEMMA3: dict[str, Any] = {"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}

ELEMENT_CASES: dict[str, dict[str, Any]] = {
    "bfloat16": _LLAMA | {"dtype": "bfloat16"},
    "the old name": _LLAMA | {"torch_dtype": "float16"},
    "float32": _LLAMA | {"dtype": "float32"},
    "float32 of a gemma": {"model_type": "gemma2", "dtype": "float32"},
    "the decoder's own": _GEMMA3 | {"text_config": _GEMMA3["text_config"] | {"dtype": "float16"}},
    "the decoder's own before the whole's": _GEMMA3
    | {"dtype": "bfloat16", "text_config": _GEMMA3["text_config"] | {"dtype": "float16"}},
    "the whole's": _GEMMA3 | {"dtype": "float16"},
}
