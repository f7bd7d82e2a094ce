"""The longest context that a config states, as sglang 0.5.23 derives it."""

from __future__ import annotations

from .fields import Fields

__all__ = ["stated_context_len"]

# The first of these that is there is taken.
_NAMES = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
    "n_positions",
)
# Their classes keep one rotary scaling for each kind of layer; none stretches the context.
_SCALED_BY_KIND = frozenset({"gemma3_text", "gemma3n_text"})


def stated_context_len(fields: Fields) -> int | None:
    """Tokens, stretched by `rope_scaling`'s factor unless it says from which length; None for none.

    :raises ShapeError: for a field that is no count.
    """
    length = fields.positive(*_NAMES)
    scaling = fields.inner("rope_scaling")
    if length is None or scaling is None or fields.model_type in _SCALED_BY_KIND:
        return length
    stretched = scaling.has("original_max_position_embeddings")
    if stretched or scaling.word("rope_type", "") == "llama3":
        return length
    return int(length * (scaling.number("factor") or 1))
