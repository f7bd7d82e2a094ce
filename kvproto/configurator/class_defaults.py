"""What published configs leave to their class: fields that are absent, not null.

The defaults of transformers 5.19.0's classes, which an interop test compares, for the families
whose checkpoints do leave such fields out.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["CLASS_DEFAULTS"]

CLASS_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "gemma2": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 8192,
        "sliding_window": 4096,
    },
    "gemma3_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "gemma3n_text": {
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "max_position_embeddings": 32768,
        "sliding_window": 512,
        "num_kv_shared_layers": 15,
    },
}
"""By `model_type`."""
