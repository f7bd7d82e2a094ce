"""The type that a model is computed in, as its config states it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fields import Fields, ShapeError
from .option_values import Float

__all__ = ["stated_element_type"]

_NAMES = ("dtype", "torch_dtype")
_WORDS: Mapping[str, Float] = {
    "bfloat16": "bfloat16",
    "float16": "float16",
    "half": "float16",
    "float32": "float32",
    "float": "float32",
}


def stated_element_type(config: Mapping[str, Any]) -> Float | None:
    """`dtype`, or `torch_dtype`, of the decoder's own config, else of the whole; None for neither.

    What is stored as float32 is served in half of it, as sglang 0.5.23 does: in float16, models of
    the gemma family in bfloat16.

    :raises ShapeError: for a value that is no such type.
    """
    decoder = Fields(config)
    for fields in (decoder.stated, config):
        for name in _NAMES:
            if (value := fields.get(name)) is not None:
                return _served(name, value, decoder.model_type)
    return None


def _served(name: str, value: object, model_type: str) -> Float:
    stated = _WORDS.get(value.removeprefix("torch.")) if isinstance(value, str) else None
    if stated is None:
        raise ShapeError(
            f"{name}={value!r}: must be one of {', '.join(_WORDS)}; --model-dtype goes before it"
        )
    if stated == "float32":
        return "bfloat16" if model_type.startswith("gemma") else "float16"
    return stated
