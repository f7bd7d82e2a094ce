"""What each of sglang 0.5.23's pools is, for those that do not declare it.

By class, the nearest known one in the order of inheritance, so that a vendor's subclass is what its
base is; and by the attributes that the instance was built with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from kvproto.protocols import (
    DeclaresTraits,
    Fp8Variant,
    Layout,
    PoolTraits,
    QuantScheme,
    supports,
)

__all__ = ["derive_traits", "known_classes"]

_FP8: dict[str, Fp8Variant] = {
    "torch.float8_e4m3fn": "e4m3fn",
    "torch.float8_e4m3fnuz": "e4m3fnuz",
    "torch.float8_e5m2": "e5m2",
    "torch.float8_e5m2fnuz": "e5m2fnuz",
}
_LABELS: dict[str, Layout] = {
    "nhd": "nhd",
    "hnd": "hnd",
    "vectorized_5d": "vectorized_5d",
    "page_major": "page_envelope",
    "page_major_layer_major": "paged_nhd",
}


def derive_traits(pool: object) -> PoolTraits | None:
    """The traits of one of sglang's pools; None for an object of any other class."""
    for cls in type(pool).__mro__:
        if cls.__module__.startswith("sglang.") and cls.__name__ in _RULES:
            return _RULES[cls.__name__](pool)
    return None


def known_classes() -> frozenset[str]:
    """The names of sglang's classes whose traits are known."""
    return frozenset(_RULES)


def _stored(pool: Any) -> tuple[QuantScheme, Fp8Variant]:
    variant = _FP8.get(str(pool.dtype), "none")
    return ("none", "none") if variant == "none" else ("fp8_scaled", variant)


def _mha(pool: Any) -> PoolTraits:
    scheme, variant = _stored(pool)
    layout = _LABELS[pool.kv_cache_layout]
    return PoolTraits(kind="mha", layout=layout, quant_scheme=scheme, fp8_variant=variant)


def _mxfp8(pool: Any) -> PoolTraits:
    layout = _LABELS[pool.kv_cache_layout]
    return PoolTraits(kind="mha", layout=layout, quant_scheme="mxfp8", fp8_variant="e4m3fn")


def _fp4(pool: Any) -> PoolTraits:
    return replace(_mha(pool), quant_scheme="fp4_mx16", fp8_variant="none")


def _noop(pool: Any) -> PoolTraits:
    return replace(_mha(pool), kind="noop")


def _paged(pool: Any) -> PoolTraits:
    return replace(_mha(pool), layout="paged_nhd")


def _hisparse_mha(pool: Any) -> PoolTraits:
    return replace(_mha(pool), id_space="device_slot")


def _envelope_mha(pool: Any) -> PoolTraits:
    return replace(_mha(pool), layout="page_envelope", transfer_layout="page_envelope")


def _draft_view(pool: Any) -> PoolTraits:
    return replace(_envelope_mha(pool), kind="draft_view", role="draft")


def _page_sharded_mha(pool: Any) -> PoolTraits:
    return replace(_mha(pool), replication="page_interleaved")


def _key_only(pool: Any) -> PoolTraits:
    scheme, variant = _stored(pool)
    return PoolTraits(kind="key_only", layout="nhd", quant_scheme=scheme, fp8_variant=variant)


def _mla(pool: Any) -> PoolTraits:
    scheme, variant = _stored(pool)
    return PoolTraits(
        kind="mla",
        layout="latent_rows",
        quant_scheme=scheme,
        fp8_variant=variant,
        replication="tp_replicated",
    )


def _mla_fp4(pool: Any) -> PoolTraits:
    return replace(_mla(pool), quant_scheme="fp4_mx16", fp8_variant="none")


def _mla_npu(pool: Any) -> PoolTraits:
    indexed = pool.index_head_dim is not None
    return replace(
        _mla(pool),
        layout="latent_split",
        transfer_layout="component_groups",
        index_scheme="npu_bf16" if indexed else "none",
        state_index_space="kv_pages" if indexed else "none",
    )


def _envelope_mla(pool: Any) -> PoolTraits:
    return replace(_mla(pool), layout="page_envelope", transfer_layout="page_envelope")


def _page_sharded_mla(pool: Any) -> PoolTraits:
    return replace(_mla(pool), replication="page_interleaved")


def _dsa(pool: Any) -> PoolTraits:
    latent = _mla(pool)
    packed = pool.dsa_kv_cache_store_fp8
    return replace(
        latent,
        kind="dsa",
        quant_scheme="dsa_fp8_packed" if packed else latent.quant_scheme,
        index_scheme="dsa_fp8_scale",
        state_index_space="kv_pages",
    )


def _dsa_by_layer(pool: Any) -> PoolTraits:
    return replace(_dsa(pool), replication="layer_owned", transfer_layout="owned_layers")


def _dsa_hisparse(pool: Any) -> PoolTraits:
    return replace(_dsa(pool), id_space="device_slot")


def _dsa_page_sharded(pool: Any) -> PoolTraits:
    return replace(_dsa(pool), replication="page_interleaved")


def _of_leaf(pool: Any, traits: PoolTraits) -> PoolTraits:
    # A leaf may be a vendor's, which declares what it is.
    full = pool.full_kv_pool
    leaf = full.pool_traits if supports(full, DeclaresTraits) else derive_traits(full)
    return traits if leaf is None else replace(traits, replication=leaf.replication)


def _swa(pool: Any) -> PoolTraits:
    traits = PoolTraits(
        kind="swa", layout="composite", swa_storage="mapped_pool", state_index_space="swa_pages"
    )
    return _of_leaf(pool, traits)


def _swa_unified(pool: Any) -> PoolTraits:
    return replace(_swa(pool), id_space="virtual", transfer_layout="page_envelope")


def _swa_draft(pool: Any) -> PoolTraits:
    return replace(_swa(pool), role="draft")


def _hybrid(pool: Any) -> PoolTraits:
    traits = PoolTraits(kind="hybrid_linear", layout="composite", state_index_space="state_slot")
    return _of_leaf(pool, traits)


def _hybrid_unified(pool: Any) -> PoolTraits:
    return replace(_hybrid(pool), id_space="virtual")


def _qsa(pool: Any) -> PoolTraits:
    return replace(_hybrid(pool), kind="qsa", index_scheme="qsa_compressed")


def _sparse(pool: Any) -> PoolTraits:
    scheme, variant = _stored(pool)
    return PoolTraits(
        kind="sparse_index",
        layout="composite",
        quant_scheme=scheme,
        fp8_variant=variant,
        index_scheme="sparse_k" if pool.index_kv_pool is None else "sparse_kv",
        state_index_space="kv_pages",
    )


def _sparse_nvfp4(pool: Any) -> PoolTraits:
    return replace(_sparse(pool), quant_scheme="nvfp4", fp8_variant="none")


def _rows_nvfp4(_pool: Any) -> PoolTraits:
    return PoolTraits(kind="mha", layout="page_rows_nvfp4", quant_scheme="nvfp4")


def _keys_nvfp4(_pool: Any) -> PoolTraits:
    return PoolTraits(kind="key_only", layout="page_rows_nvfp4", quant_scheme="nvfp4")


def _packed(_pool: Any) -> PoolTraits:
    # A leaf of a compressed pool holds one row of bytes per entry, and no values beside it.
    return PoolTraits(
        kind="key_only",
        layout="packed_pages",
        quant_scheme="compressed_packed",
        replication="tp_replicated",
    )


def _packed_hisparse(pool: Any) -> PoolTraits:
    return replace(_packed(pool), id_space="device_slot")


def _compressed(pool: Any) -> PoolTraits:
    ring = cast(bool, pool._unified_kv)  # what sglang itself reads: it has no other name for it
    return replace(
        _packed(pool),
        kind="compressed",
        swa_storage="request_ring" if ring else "mapped_pool",
        index_scheme="compressed_c4",
        transfer_layout="ratio_groups",
        state_index_space="request_slot" if ring else "swa_pages",
    )


_RULES: dict[str, Callable[[Any], PoolTraits]] = {
    "MHATokenToKVPool": _mha,
    "MHATokenToKVPoolMXFP8": _mxfp8,
    "MHATokenToKVPoolFP4": _fp4,
    "NoOpMHATokenToKVPool": _noop,
    "PageMajorMHATokenToKVPool": _paged,
    "NPUMHATokenToKVPool": _paged,
    "HiSparseMHAMainPool": _hisparse_mha,
    "UnifiedMHATokenToKVPool": _envelope_mha,
    "UnifiedDraftKVPool": _draft_view,
    "PageInterleaveMHATokenToKVPool": _page_sharded_mha,
    "MHATokenToKOnlyPool": _key_only,
    "MLATokenToKVPool": _mla,
    "MLATokenToKVPoolFP4": _mla_fp4,
    "NPUMLATokenToKVPool": _mla_npu,
    "UnifiedMLATokenToKVPool": _envelope_mla,
    "PageInterleaveMLATokenToKVPool": _page_sharded_mla,
    "DSATokenToKVPool": _dsa,
    "LayerSplitDSATokenToKVPool": _dsa_by_layer,
    "HiSparseDSATokenToKVPool": _dsa_hisparse,
    "PageInterleaveDSATokenToKVPool": _dsa_page_sharded,
    "SWAKVPool": _swa,
    "UnifiedSWAKVPool": _swa_unified,
    "UnifiedDraftSWAKVPool": _swa_draft,
    "HybridLinearKVPool": _hybrid,
    "UnifiedHybridLinearKVPool": _hybrid_unified,
    "QSATokenToKVPool": _qsa,
    "MiniMaxSparseKVPool": _sparse,
    "MiniMaxM3Nvfp4KVPool": _sparse_nvfp4,
    "MiniMaxM3Nvfp4MainKVPool": _rows_nvfp4,
    "MiniMaxM3Nvfp4IndexKPool": _keys_nvfp4,
    "DeepSeekV4SingleKVPool": _packed,
    "DeepSeekV4IndexerPool": _packed,
    "HiSparseC4DevicePool": _packed_hisparse,
    "DeepSeekV4TokenToKVPool": _compressed,
}
