# pyright: basic, reportMissingImports=false
"""Tiny models with random weights, as a folder that sglang and transformers load.

Runs in `.interop-venv`. Vocabulary of 128, hidden size 64, three or four layers; weights are drawn
wider than an initializer would, so that greedy tokens vary with what the cache holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["MODELS", "VOCABULARY", "WINDOW", "make_model"]

VOCABULARY = 128
WINDOW = 16
"""Tokens that a window layer of `window` sees, the newest included."""
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}


def make_model(name: str, folder: Path) -> Path:
    """The folder of a model of `MODELS`, under `folder`; it is made once, the same every time.

    :raises KeyError: for a name that is not in `MODELS`.
    """
    import torch
    from transformers import AutoModelForCausalLM

    made = folder / name
    if (made / "config.json").is_file():
        return made
    config, spread, more = MODELS[name]()
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    _draw(model, spread)
    made.mkdir(parents=True, exist_ok=True)
    _write_tokenizer(made)
    model.save_pretrained(made)
    file = made / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | more, indent=1))
    return made


def _draw(model: Any, spread: float) -> None:
    import torch

    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, spread, generator=generator)


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {f"t{number}": number for number in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="t0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="t1", eos_token="t2", pad_token="t0", unk_token="t0"
    )
    fast.save_pretrained(folder)


def _heads() -> tuple[Any, float, dict[str, Any]]:
    from transformers import LlamaConfig

    shape = {"intermediate_size": 128, "num_hidden_layers": 3, "num_key_value_heads": 2}
    return LlamaConfig(**_COMMON, **shape), 0.2, {}


def _window() -> tuple[Any, float, dict[str, Any]]:
    from transformers import Cohere2Config

    layers = ["sliding_attention", "full_attention"] * 2
    shape = {"intermediate_size": 128, "num_hidden_layers": 4, "num_key_value_heads": 2}
    config = Cohere2Config(
        **_COMMON, **shape, sliding_window=WINDOW, layer_types=layers, logit_scale=1.0
    )
    # What sglang asks for before it gives window layers a space of their own.
    return config, 0.3, {"is_hybrid_swa": True, "hybrid_layer_pattern": [1, 0, 1, 0]}


def _latent() -> tuple[Any, float, dict[str, Any]]:
    from transformers import DeepseekV2Config

    shape = {
        "intermediate_size": 128,
        "num_hidden_layers": 3,
        "num_key_value_heads": 4,
        "first_k_dense_replace": 3,  # no layer of experts
        "kv_lora_rank": 256,  # with 32, a width that sglang's Triton kernels split into parts
        "q_lora_rank": None,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 32,
        "v_head_dim": 16,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
    }
    yarn = {
        "rope_type": "yarn",
        "type": "yarn",
        "factor": 1.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "rope_theta": 10000.0,
    }
    config = DeepseekV2Config(**_COMMON, **shape)
    return config, 0.2, {"rope_scaling": yarn, "moe_layer_freq": 1}


def _hybrid() -> tuple[Any, float, dict[str, Any]]:
    from transformers import Lfm2Config

    shape = {
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_key_value_heads": 2,
        "layer_types": ["conv", "full_attention", "conv", "full_attention"],
        "block_auto_adjust_ff_dim": False,
    }
    return Lfm2Config(**_COMMON, **shape), 0.2, {}


MODELS: dict[str, Callable[[], tuple[Any, float, dict[str, Any]]]] = {
    "heads": _heads,
    "window": _window,
    "latent": _latent,
    "hybrid": _hybrid,
}
"""By what its pool is: rows by head (Llama), a window pair (Cohere2), latent rows (DeepSeek-V2),
attention beside recurrent state (LFM2)."""
