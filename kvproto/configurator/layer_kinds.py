"""Which layer is of which kind, from the several ways in which configs say it."""

from __future__ import annotations

from typing import Literal

from .fields import HEADS, LAYERS, Fields, ShapeError
from .layer_blocks import attending_blocks
from .layer_windows import windowed_kinds
from .states import has_state

__all__ = ["LayerKind", "layer_kinds", "rows_per_layer"]

LayerKind = Literal[
    "full", "sliding", "chunked", "indexed", "compressed", "linear", "state_only", "no_cache"
]
"""What a layer keeps: rows of the whole context (`full`), of a window (`sliding`) or of a chunk
(`chunked`), rows with an index key (`indexed`), rows that stand for several tokens (`compressed`),
a recurrent state (`linear`), a convolution's window alone (`state_only`), nothing (`no_cache`)."""

_FULL: LayerKind = "full"
_NONE: LayerKind = "no_cache"
_COMPRESSED: LayerKind = "compressed"

_KIND_OF_WORD: dict[str, LayerKind] = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "sliding_attention": "sliding",
    "local_attention": "sliding",
    "chunked_attention": "chunked",
    "indexed_attention": "indexed",
    "minimax_m3_sparse": "indexed",
    "compressed_sparse_attention": "compressed",
    "heavily_compressed_attention": "compressed",
    "linear_attention": "linear",
    "mamba": "linear",
    "mamba2": "linear",
    "conv": "state_only",
    "mlp": "no_cache",
    "moe": "no_cache",
}
_KIND_OF_LETTER: dict[str, LayerKind] = {
    "M": "linear",
    "*": "full",
    "-": "no_cache",
    "E": "no_cache",
}

# Families whose layers are recurrent unless the config names the ones that attend.
_RECURRENT_FAMILIES = frozenset({"bamba"})
# Each layer attends twice, and keeps the rows of both.
_ATTENDING_TWICE = frozenset({"longcat_flash"})
# Their attending layers have index keys only where the indexer's sizes are stated, whatever
# `layer_types` calls them: checkpoints say "full_attention", the class "indexed_attention".
_INDEXED_IF_STATED = frozenset({"qwen4_exp", "qwen4_exp_text"})
# The last layer of so many attends where the config does not say which do.
_LINEAR_PERIOD = {
    "qwen3_5_moe_text": 4,
    "qwen3_5_text": 4,
    "qwen3_next": 4,
    "qwen4_exp_text": 4,
}
_UNKNOWN = ("block_types", "use_cla")


def layer_kinds(fields: Fields) -> tuple[LayerKind, ...]:
    """One kind for each layer that can have a cache.

    The config's own list is taken where it has one; otherwise a pattern or a period; otherwise
    what the family does with a window; otherwise every layer is of the one kind its family has.

    :raises ShapeError: for an unknown word, a list of another length than the layers, and for
        windows that nothing gives to a layer or whose length is missing.
    """
    for name in _UNKNOWN:
        if fields.flag(name):
            raise ShapeError(
                f"{fields.who}: {name} changes what its layers keep, in a way not known here"
            )
    kinds = _listed(fields) or _patterned(fields) or _periodic(fields) or _uniform(fields)
    kinds = _without_rows(fields, _of_all_layers(fields, kinds))
    if fields.model_type in _INDEXED_IF_STATED:
        stated = fields.has_any("indexer_n_heads", "indexer_head_dim")
        plain: LayerKind = "indexed" if stated else "full"
        ours: list[LayerKind] = [plain if k in ("full", "indexed") else k for k in kinds]
        return tuple(ours)
    return kinds


def rows_per_layer(fields: Fields) -> int:
    """How many of the layers that `layer_kinds` counts are one layer of the model."""
    return 2 if fields.model_type in _ATTENDING_TWICE else 1


def _of_all_layers(fields: Fields, kinds: tuple[LayerKind, ...]) -> tuple[LayerKind, ...]:
    """The kinds of the model's own layers, without those of its draft layers."""
    layers = fields.integer(*LAYERS)
    if layers is None:
        return kinds
    count = layers * rows_per_layer(fields)
    drafts = fields.integer("num_nextn_predict_layers") or 0
    if len(kinds) not in (count, count + drafts):
        raise ShapeError(f"{fields.who}: {len(kinds)} kinds for {count} layers")
    return kinds[:count]


def _without_rows(fields: Fields, kinds: tuple[LayerKind, ...]) -> tuple[LayerKind, ...]:
    """With nothing kept where blocks do not attend, and where rows of earlier layers are read."""
    attending = attending_blocks(fields)
    if attending is not None:
        if len(attending) != len(kinds):
            raise ShapeError(
                f"{fields.who}: {len(attending)} block_configs for {len(kinds)} layers"
            )
        blocks = zip(kinds, attending, strict=True)
        kept: list[LayerKind] = [kind if keeps else _NONE for kind, keeps in blocks]
        kinds = tuple(kept)
    shared = fields.integer("num_kv_shared_layers") or 0
    if not shared:
        return kinds
    owned = kinds[:-shared]
    if not set(kinds[-shared:]) <= set(owned):
        why = "no earlier layer of that kind has rows to share"
        raise fields.wrong("num_kv_shared_layers", shared, why)
    borrowed: tuple[LayerKind, ...] = (_NONE,) * shared
    return owned + borrowed


def _listed(fields: Fields) -> tuple[LayerKind, ...] | None:
    sparse = fields.inner("sparse_attention_config")
    chosen = sparse.integers("sparse_attention_freq") if sparse is not None else None
    if chosen is not None:
        return tuple("indexed" if flag else "full" for flag in chosen)
    flags = fields.integers("attn_type_list")
    if flags is not None:
        return tuple("full" if flag else "linear" for flag in flags)
    for name in ("layer_types", "layers_block_type"):
        words = fields.words(name)
        if words is not None:
            return tuple(_kind_of(fields, name, word) for word in words)
    ratios = fields.integers("compress_ratios")
    return None if ratios is None else (_COMPRESSED,) * len(ratios)


def _kind_of(fields: Fields, name: str, word: str) -> LayerKind:
    kind = _KIND_OF_WORD.get(word)
    if kind is None:
        raise fields.wrong(name, word, f"is none of {', '.join(sorted(_KIND_OF_WORD))}")
    if kind == "linear" and fields.has("conv_L_cache"):
        return "state_only"
    return kind


def _patterned(fields: Fields) -> tuple[LayerKind, ...] | None:
    windowed = fields.integers("hybrid_layer_pattern")
    if windowed is not None:
        return tuple("sliding" if flag == 1 else "full" for flag in windowed)
    if fields.has("hybrid_override_pattern"):
        letters = fields.word("hybrid_override_pattern", "")
        unknown = set(letters) - set(_KIND_OF_LETTER)
        if unknown:
            raise fields.wrong("hybrid_override_pattern", letters, f"unknown {sorted(unknown)}")
        return tuple(_KIND_OF_LETTER[letter] for letter in letters)
    linear = fields.inner("linear_attn_config")
    full = linear.integers("full_attn_layers") if linear is not None else None
    if full is None:
        return None
    # These ids count from 1.
    return tuple("full" if i + 1 in full else "linear" for i in range(_count(fields)))


def _periodic(fields: Fields) -> tuple[LayerKind, ...] | None:
    layers = range(_count(fields))
    interval = fields.integer("full_attention_interval") or _LINEAR_PERIOD.get(fields.model_type)
    if interval:
        return tuple("linear" if (i + 1) % interval else "full" for i in layers)
    period = fields.integer("attn_layer_period")
    if period:
        offset = fields.integer("attn_layer_offset") or 0
        return tuple("full" if i % period == offset else "linear" for i in layers)
    attending = fields.integers("attn_layer_indices")
    if attending is not None:
        return tuple("full" if i in attending else "linear" for i in layers)
    if fields.integer("attention_chunk_size"):
        rotary = fields.integers("no_rope_layers") or tuple((i + 1) % 4 for i in layers)
        return tuple("chunked" if flag else "full" for flag in rotary)
    return None


def _uniform(fields: Fields) -> tuple[LayerKind, ...]:
    count = _count(fields)
    only = _only_kind(fields)
    if only is not None:
        return (only,) * count
    return windowed_kinds(fields, count) or (_FULL,) * count


def _only_kind(fields: Fields) -> LayerKind | None:
    """The kind of every layer; None for layers that attend, some of them perhaps to a window."""
    if fields.model_type in _RECURRENT_FAMILIES:
        return "linear"
    if not fields.has_any(*HEADS):
        if not has_state(fields):
            raise fields.lacks(*HEADS)
        return "linear"
    return "indexed" if fields.has("index_topk") else None


def _count(fields: Fields) -> int:
    return fields.required(*LAYERS) * rows_per_layer(fields)
