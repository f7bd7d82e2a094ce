# pyright: basic, reportMissingImports=false
"""Factories for the kit: sglang's window pairs, hybrids and recurrent state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sglang.srt.configs.mamba_utils import (
    KimiLinearStateShape,
    Mamba2CacheParams,
    Mamba2StateDType,
)
from sglang.srt.mem_cache.memory_pool import HybridLinearKVPool, MambaPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    HybridPoolRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
    StatePoolRequest,
    SWAPoolRequest,
)
from tests.interop import factories

__all__ = [
    "cache_params",
    "hybrid_over_dsa",
    "hybrid_over_mha",
    "hybrid_over_mla",
    "state",
    "swa_over_latents",
    "swa_over_mha",
]


def swa_over_mha(request: Any) -> SWAKVPool | Declined:
    """sglang's window pair over two pools of K and V rows."""
    match request:
        case SWAPoolRequest(full=MHALeafRequest(), window=MHALeafRequest()):
            return _window_pair(request)
    return Declined("SWAKVPool over MHATokenToKVPool is a window pair of K and V rows")


def swa_over_latents(request: Any) -> SWAKVPool | Declined:
    """The same over latent rows, with index keys or without."""
    match request:
        case SWAPoolRequest(full=MLALeafRequest() | DSALeafRequest(), window=MLALeafRequest()):
            return _window_pair(request)
    return Declined("SWAKVPool over MLATokenToKVPool is a window pair of latent rows")


def _window_pair(request: SWAPoolRequest) -> Any:
    full, window = (factories.leaf(side) for side in (request.full, request.window))
    refused = next((side for side in (full, window) if isinstance(side, Declined)), None)
    if refused is not None:
        return refused
    heads = _heads(request.full)
    return SWAKVPool(
        size=request.full.size,
        size_swa=request.window.size,
        page_size=request.full.page_size,
        dtype=request.full.dtype,
        device="cpu",
        full_attention_layer_ids=list(request.full_attention_layer_ids),
        swa_attention_layer_ids=list(request.swa_attention_layer_ids),
        full_kv_pool_class=type(full),
        swa_kv_pool_class=type(window),
        full_kv_pool_kwargs=_leaf_keywords(request.full),
        swa_kv_pool_kwargs=_leaf_keywords(request.window),
        **heads,
    )


def _leaf_keywords(request: LeafRequest) -> dict[str, Any]:
    """What a window pair does not itself pass to its leaf."""
    by_composite = ("size", "dtype", "layer_num", "start_layer", "end_layer")
    given = {k: v for k, v in request.keywords().items() if k not in by_composite}
    copies = {"enable_kv_cache_copy": True} if isinstance(request, MHALeafRequest) else {}
    return given | copies


def _heads(request: LeafRequest) -> dict[str, int]:
    """Composites are told heads, also of latent rows, which have one."""
    match request:
        case MHALeafRequest() | SparseIndexLeafRequest():
            return {"head_num": request.head_num, "head_dim": request.head_dim}
        case MLALeafRequest() | DSALeafRequest():
            width = request.kv_lora_rank + request.qk_rope_head_dim
            return {"head_num": 1, "head_dim": width}


def hybrid_over_mha(request: Any) -> HybridLinearKVPool | Declined:
    """sglang's hybrid over a pool of K and V rows."""
    match request:
        case HybridPoolRequest(full=MHALeafRequest()):
            return _hybrid(request, {})
    return Declined("HybridLinearKVPool over MHATokenToKVPool is a hybrid of K and V rows")


def hybrid_over_mla(request: Any) -> HybridLinearKVPool | Declined:
    """The same over latent rows."""
    match request:
        case HybridPoolRequest(full=MLALeafRequest() as full):
            return _hybrid(request, _latent(full))
    return Declined("HybridLinearKVPool over MLATokenToKVPool is a hybrid of latent rows")


def hybrid_over_dsa(request: Any) -> HybridLinearKVPool | Declined:
    """The same with index keys."""
    match request:
        case HybridPoolRequest(full=DSALeafRequest() as full):
            return _hybrid(request, _latent(full) | {"use_dsa": True})
    return Declined("HybridLinearKVPool over DSATokenToKVPool is a hybrid with index keys")


def _latent(full: MLALeafRequest | DSALeafRequest) -> dict[str, Any]:
    widths = {"kv_lora_rank": full.kv_lora_rank, "qk_rope_head_dim": full.qk_rope_head_dim}
    return {"use_mla": True} | widths


def _hybrid(request: HybridPoolRequest, kind: dict[str, Any]) -> Any:
    full = factories.leaf(replace(request.full, start_layer=0))
    if isinstance(full, Declined):
        return full
    return HybridLinearKVPool(
        size=request.full.size,
        page_size=request.full.page_size,
        dtype=request.full.dtype,
        device="cpu",
        full_attention_layer_ids=list(request.full_attention_layer_ids),
        full_kv_pool=full,
        mamba_pool=state(request.state),
        **_heads(request.full),
        **kind,
    )


def state(request: Any) -> Any:
    """sglang's pool of recurrent state."""
    if not isinstance(request, StatePoolRequest):
        return Declined("MambaPool holds recurrent state")
    return MambaPool(
        size=request.size,
        spec_state_size=request.spec_state_size or request.size,
        cache_params=cache_params(request),
        mamba_layer_ids=list(request.mamba_layer_ids),
        device="cpu",
        enable_memory_saver=request.enable_memory_saver,
        speculative_num_draft_tokens=request.speculative_num_draft_tokens,
    )


def cache_params(request: StatePoolRequest) -> Mamba2CacheParams:
    """The pool reads shapes, types and how ranks split them; a model's numbers are for others."""
    unread = dict.fromkeys(("num_heads", "head_dim", "num_k_heads", "head_k_dim", "num_spec"), 1)
    shape = KimiLinearStateShape(
        conv=list(request.conv_state_shape),
        temporal=request.temporal_state_shape,
        conv_slice_axis=request.conv_slice_axis,
        conv_shard_groups=request.conv_shard_groups and list(request.conv_shard_groups),
        conv_kernel=2,
        **unread,
    )
    types = Mamba2StateDType(conv=request.conv_dtype, temporal=request.ssm_dtype)
    return Mamba2CacheParams(shape=shape, dtype=types, layers=list(request.mamba_layer_ids))
