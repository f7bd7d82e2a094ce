"""Rows, index keys and compressed rows that a config asks of its attending layers."""

from __future__ import annotations

from .fields import HEADS, HIDDEN, LAYERS, Fields
from .geometry import (
    AttentionGeometry,
    CompressedGeometry,
    HeadGeometry,
    IndexGeometry,
    LatentGeometry,
)
from .layer_blocks import heads_of_blocks
from .layer_kinds import LayerKind

__all__ = [
    "attention_geometry",
    "compressed_geometry",
    "index_geometry",
    "shared_choices",
    "window_geometry",
]

_KV_HEADS = ("num_kv_heads", "num_key_value_heads", "n_head_kv", "multi_query_group_num")
_COMPRESSION = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
# transformers' Gemma4TextConfig: the width of a full layer's head where the config is silent.
_GLOBAL_HEAD_DIM = {"gemma4_text": 512, "gemma4": 512}


def attention_geometry(fields: Fields) -> AttentionGeometry:
    """The rows of layers that see the whole context.

    :raises ShapeError: where a count or a width is missing.
    """
    if fields.has("kv_lora_rank"):
        return LatentGeometry(
            kv_lora_rank=fields.required("kv_lora_rank"),
            qk_rope_head_dim=fields.required("qk_rope_head_dim"),
        )
    default = _GLOBAL_HEAD_DIM.get(fields.model_type)
    own = fields.positive("global_head_dim") or default
    width = own or _head_dim(fields)
    return HeadGeometry(
        head_num=_global_heads(fields) or _head_num(fields),
        head_dim=width,
        v_head_dim=(None if own else fields.positive("v_head_dim")) or width,
    )


def window_geometry(fields: Fields) -> AttentionGeometry:
    """The rows of windowed layers; those of the full layers unless the config sets them apart."""
    if fields.has("kv_lora_rank"):
        return LatentGeometry(
            kv_lora_rank=fields.required("swa_kv_lora_rank", "kv_lora_rank"),
            qk_rope_head_dim=fields.required("swa_qk_rope_head_dim", "qk_rope_head_dim"),
        )
    other = fields.inner("attention_other_setting")
    heads = other.positive("num_attention_groups") if other is not None else None
    width = fields.positive("swa_head_dim") or _head_dim(fields)
    values = fields.positive("swa_v_head_dim")
    if values is None and not fields.has("swa_head_dim"):
        values = fields.positive("v_head_dim")
    return HeadGeometry(
        head_num=fields.positive("swa_num_key_value_heads") or heads or _head_num(fields),
        head_dim=width,
        v_head_dim=values or width,
    )


def index_geometry(fields: Fields) -> IndexGeometry | None:
    """The index key of a layer that chooses the tokens it attends to; None where none is stated.

    :raises ShapeError: for a field that is no count.
    """
    sparse = fields.inner("sparse_attention_config")
    if sparse is not None:
        return _beside_heads(sparse)
    pooled = fields.positive("indexer_head_dim")
    if pooled is not None:
        ratio = fields.required("indexer_compress_ratio")
        return IndexGeometry(scheme="pooled_rows", head_dim=pooled, kpool=ratio)
    width = fields.positive("index_head_dim")
    if width is None:
        return None
    if not fields.has("kv_lora_rank"):
        return IndexGeometry(scheme="rows", head_dim=width)
    pool = fields.integer("index_kpool") or 1
    weighed = fields.flag("index_kpool_compress")
    return IndexGeometry(scheme="latent", head_dim=width, kpool=pool, weighed=weighed)


def _beside_heads(sparse: Fields) -> IndexGeometry:
    without = sparse.integers("sparse_disable_index_value") or ()
    chosen = sparse.integers("sparse_attention_freq") or ()
    valued = (i for i, flag in enumerate(chosen) if flag and not any(without[i : i + 1]))
    width = sparse.required("sparse_index_dim")
    return IndexGeometry(scheme="rows", head_dim=width, value_layer_ids=tuple(valued))


def shared_choices(fields: Fields, kinds: tuple[LayerKind, ...]) -> tuple[int, ...]:
    """Indexed layers that reuse an earlier layer's choice and keep no index keys.

    Stated one by one (`indexer_types`, `index_topk_pattern`) or by a period (`cli_factor`;
    `index_topk_freq` from `index_skip_topk_offset` on).
    """
    return tuple(i for i, kind in enumerate(kinds) if kind == "indexed" and _reuses(fields, i))


def _reuses(fields: Fields, layer_id: int) -> bool:
    types = fields.words("indexer_types")
    if types is not None:
        return layer_id < len(types) and types[layer_id] == "shared"
    every = fields.integer("cli_factor") or 1
    if every > 1:
        return layer_id % every != 0
    pattern = fields.word("index_topk_pattern", "")
    if pattern:
        return layer_id < len(pattern) and pattern[layer_id] == "S"
    frequency = fields.integer("index_topk_freq") or 1
    offset = fields.integer("index_skip_topk_offset") or 2
    return max(layer_id - offset + 1, 0) % frequency != 0


def compressed_geometry(fields: Fields) -> CompressedGeometry:
    """Rows of several tokens each, by the layer's ratio.

    :raises ShapeError: where neither ratios nor kinds of layers are stated.
    """
    ratios = fields.integers("compress_ratios")
    count = fields.integer(*LAYERS)
    if ratios is None:
        words = fields.words("layer_types") or ()
        ratios = tuple(_COMPRESSION.get(word, 0) for word in words)
    return CompressedGeometry(
        head_dim=fields.required("head_dim"),
        qk_rope_head_dim=fields.required("qk_rope_head_dim"),
        index_head_dim=fields.required("index_head_dim"),
        ratios=ratios[:count],
    )


def _global_heads(fields: Fields) -> int | None:
    if fields.is_off("attention_k_eq_v"):
        return None
    return fields.positive("num_global_key_value_heads")


def _head_num(fields: Fields) -> int:
    # Falcon's later layout counts its heads though it also states this.
    if fields.flag("multi_query") and not fields.flag("new_decoder_architecture"):
        return 1
    blocks = heads_of_blocks(fields)
    if blocks is not None:
        return blocks
    inner = fields.inner("attn_config")
    heads = inner.positive("kv_n_heads") if inner is not None else None
    heads = heads or fields.positive(*_KV_HEADS) or fields.positive(*HEADS)
    if heads is None:
        raise fields.lacks(*HEADS)
    return heads


def _head_dim(fields: Fields) -> int:
    width = fields.positive("head_dim")
    if width is not None:
        return width
    heads, hidden = fields.positive(*HEADS), fields.required(*HIDDEN)
    if heads is None:
        raise fields.lacks(*HEADS)
    if hidden < heads:
        name = next(name for name in HIDDEN if fields.has(name))
        raise fields.wrong(name, hidden, f"leaves nothing for each of {heads} heads")
    return hidden // heads
