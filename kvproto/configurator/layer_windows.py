"""Which layers attend to a window, where a config has no list of its layers.

The rules are those by which transformers 5.19.0's configuration classes derive `layer_types`; an
interop test compares them.
"""

from __future__ import annotations

from typing import Literal

from .fields import Fields

__all__ = ["windowed_kinds"]

Kind = Literal["full", "sliding"]

# The last of so many layers sees the whole context; a stated `sliding_window_pattern` is ignored.
_FIXED_PERIOD = {
    "diffusion_gemma_text": 6,
    "gemma2": 2,
    "gemma3n_text": 5,
    "gemma4_text": 6,
    "gemma4_unified_text": 6,
    "gpt_oss": 2,
    "olmo3": 4,
    "vaultgemma": 2,
}
# The same, unless the config states a period of its own under one of these names.
_STATED_PERIOD = {
    "afmoe": 4,
    "cohere2": 4,
    "embedding_gemma2_text": 6,
    "exaone4": 4,
    "exaone_moe": 4,
    "gemma3": 6,
    "gemma3_text": 6,
}
_PERIODS = ("sliding_window_pattern", "layer_switch", "global_attn_every_n_layers")
# Whatever the pattern, the last layer sees the whole context.
_FULL_AT_THE_END = frozenset(
    {
        "diffusion_gemma_text",
        "embedding_gemma2_text",
        "gemma4",
        "gemma4_text",
        "gemma4_unified_text",
    }
)
# The first layers see the whole context, as many as `max_window_layers` says, or else these.
_FULL_AT_FIRST = {
    "deepseek_ocr2_text": 28,
    "dots1": 62,
    "qwen2": 28,
    "qwen2_5_omni_text": 28,
    "qwen2_5_vl": 80,
    "qwen2_5_vl_text": 80,
    "qwen2_vl": 80,
    "qwen2_vl_text": 80,
    "qwen3": 28,
}
# Windows only where the config switches them on; for others the length alone does.
_SWITCHED = frozenset(_FULL_AT_FIRST) - {"dots1"} | {"qwen2_moe", "qwen3_moe", "smollm3"}
# A stated window is every layer's.
_EVERYWHERE = frozenset(
    {
        "ministral",
        "ministral3",
        "mistral",
        "mixtral",
        "muse_glimmer_assistant",
        "phi3",
        "phi4_multimodal",
        "phimoe",
        "qwen3_moe",
        "starcoder2",
    }
)


def windowed_kinds(fields: Fields, count: int) -> tuple[Kind, ...] | None:
    """The kinds of so many layers; None where none attends to a window.

    :raises ShapeError: where a window is stated and nothing says whose it is.
    """
    local = fields.integers("local_layer_ids")
    if local is not None:
        return tuple("sliding" if i in local else "full" for i in range(count))
    if not fields.integer("sliding_window", "sliding_window_size") or _switched_off(fields):
        return None
    kinds: tuple[Kind, ...] = tuple(_kind(fields, i, count) for i in range(count))
    if fields.model_type in _FULL_AT_THE_END:
        kinds = (*kinds[:-1], "full")
    return kinds


def _switched_off(fields: Fields) -> bool:
    if fields.model_type in _SWITCHED:
        return not fields.flag("use_sliding_window")
    return fields.is_off("use_sliding_window")


def _kind(fields: Fields, layer_id: int, count: int) -> Kind:
    family = fields.model_type
    if family == "mimo_v2_flash":
        return "full" if layer_id == 0 or (layer_id + 1) % 6 == 0 else "sliding"
    if family == "cwm":
        return "sliding" if layer_id % 4 else "full"
    if family == "smollm3":
        return _without_rope(fields, layer_id)
    if family == "qwen2_moe":
        first = fields.integer("max_window_layers")
        windowed = (layer_id + 1) % 2 and layer_id < (28 if first is None else first)
        return "sliding" if windowed else "full"
    if family in _EVERYWHERE:
        return "sliding"
    if family in _FULL_AT_FIRST:
        first = fields.integer("max_window_layers")
        first = _FULL_AT_FIRST[family] if first is None else first
        return "sliding" if layer_id >= first else "full"
    return _periodic(fields, layer_id, count)


def _without_rope(fields: Fields, layer_id: int) -> Kind:
    """This family's layers without rotary embeddings have the window."""
    rotary = fields.integers("no_rope_layers")
    if rotary is not None and layer_id < len(rotary):
        return "full" if rotary[layer_id] else "sliding"
    interval = fields.integer("no_rope_layer_interval") or 4
    return "full" if (layer_id + 1) % interval else "sliding"


def _periodic(fields: Fields, layer_id: int, count: int) -> Kind:
    letters = fields.letters("sliding_window_pattern")
    if letters:
        # "LLLG": local and global layers; the last layer of all is global.
        is_local = letters[layer_id % len(letters)] == "L" and layer_id != count - 1
        return "sliding" if is_local else "full"
    period = _FIXED_PERIOD.get(fields.model_type)
    if period is None:
        period = fields.integer(*_PERIODS) or _STATED_PERIOD.get(fields.model_type)
    if period is None:
        window = fields.integer("sliding_window", "sliding_window_size")
        raise fields.wrong(
            "sliding_window", window, "nothing says which layers have it; state `layer_types`"
        )
    return "sliding" if (layer_id + 1) % period else "full"
