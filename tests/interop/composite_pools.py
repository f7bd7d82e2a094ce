# pyright: basic, reportMissingImports=false
"""sglang's composites and ours, of the same geometry, for the scripts of `composites.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateDType, Mamba2StateShape
from sglang.srt.environ import envs
from sglang.srt.mem_cache.memory_pool import (
    DSATokenToKVPool,
    HybridLinearKVPool,
    MambaPool,
    MHATokenToKVPool,
    MLATokenToKVPool,
)
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

from kvproto.reference.dsa import DSALeaf
from kvproto.reference.hybrid_parts import hybrid_pool
from kvproto.reference.mha import MHALeaf
from kvproto.reference.mla import MLALeaf
from kvproto.reference.state import RecurrentStatePool
from kvproto.reference.swa_parts import swa_pool
from tests.interop import single_rank  # noqa: F401

__all__ = ["FAMILIES"]

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
CPU: dict[str, Any] = {"device": "cpu", "enable_memory_saver": False}
HEADS: dict[str, Any] = {"dtype": BF16, "head_num": 2, "head_dim": 4} | CPU
LATENT: dict[str, Any] = {"page_size": 64, "kv_lora_rank": 512, "qk_rope_head_dim": 64} | CPU
INDEXED: dict[str, Any] = LATENT | {"index_head_dim": 128, "kv_cache_dim": 576}
FULL, WINDOW, RECURRENT = [1, 3], [0, 2, 4], [0, 2]
PEERS = {5: 3, 6: 4, 7: 5, 9: 6}


def _mapped(pool: Any) -> Any:
    """Tokens 5, 6, 7 and 9 are inside the window."""
    table = torch.zeros(pool.size + pool.page_size + 1, dtype=torch.int64)
    table[-1] = -1
    for full, window in PEERS.items():
        table[full] = window
    pool.register_mapping(table)
    return pool


def their_windows(page_size: int = 4, **changes: Any) -> Any:
    given = HEADS | {"size": 16, "size_swa": 8, "page_size": page_size} | changes
    ids = {"full_attention_layer_ids": FULL, "swa_attention_layer_ids": WINDOW}
    with envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True):
        return _mapped(SWAKVPool(**given, **ids))


def our_windows(page_size: int = 4, **changes: Any) -> Any:
    given: dict[str, Any] = HEADS | {"page_size": page_size} | changes
    full = MHALeaf(size=16, layer_num=len(FULL), **given)
    return _pair(full, MHALeaf(size=8, layer_num=len(WINDOW), **given))


def _pair(full: Any, window: Any) -> Any:
    return _mapped(
        swa_pool(
            full_kv_pool=full,
            swa_kv_pool=window,
            full_attention_layer_ids=FULL,
            swa_attention_layer_ids=WINDOW,
        )
    )


def their_latent_windows() -> Any:
    return their_windows(
        64,
        size=128,
        size_swa=64,
        full_kv_pool_class=DSATokenToKVPool,
        swa_kv_pool_class=MLATokenToKVPool,
        full_kv_pool_kwargs=INDEXED,
        swa_kv_pool_kwargs=LATENT,
    )


def our_latent_windows() -> Any:
    full = DSALeaf(size=128, dtype=BF16, layer_num=len(FULL), **INDEXED)
    return _pair(full, MLALeaf(size=64, dtype=BF16, layer_num=len(WINDOW), **LATENT))


def _their_leaf(size: int, layer_num: int) -> Any:
    with envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True):
        return MHATokenToKVPool(size=size, layer_num=layer_num, page_size=4, **HEADS)


def our_windows_over_their_leaves() -> Any:
    return _pair(_their_leaf(16, len(FULL)), _their_leaf(8, len(WINDOW)))


def _state_params() -> Mamba2CacheParams:
    shape = Mamba2StateShape.create(
        tp_world_size=1,
        intermediate_size=16,
        n_groups=1,
        num_heads=2,
        head_dim=8,
        state_size=8,
        conv_kernel=4,
    )
    types = Mamba2StateDType(conv=BF16, temporal=torch.float32)
    return Mamba2CacheParams(shape=shape, dtype=types, layers=RECURRENT)


def their_state(**changes: Any) -> Any:
    given = {"size": 4, "spec_state_size": 2, "mamba_layer_ids": RECURRENT, "device": "cpu"}
    return MambaPool(cache_params=_state_params(), **given | changes)


def our_state(**changes: Any) -> Any:
    params = _state_params()
    return RecurrentStatePool(
        size=4,
        spec_state_size=2,
        mamba_layer_ids=RECURRENT,
        conv_state_shape=params.shape.conv,
        temporal_state_shape=params.shape.temporal,
        conv_dtype=params.dtype.conv,
        ssm_dtype=params.dtype.temporal,
        conv_slice_axis=getattr(params.shape, "conv_slice_axis", 0),
        conv_shard_groups=getattr(params.shape, "conv_shard_groups", None),
        device="cpu",
        **changes,
    )


def their_hybrid(**changes: Any) -> Any:
    ids = {"full_attention_layer_ids": FULL, "mamba_pool": their_state()}
    with envs.SGLANG_NATIVE_MOVE_KV_CACHE.override(True):
        return HybridLinearKVPool(**HEADS | {"size": 16, "page_size": 4} | changes, **ids)


def our_hybrid(leaf: Any = None) -> Any:
    if leaf is None:
        leaf = MHALeaf(size=16, page_size=4, layer_num=len(FULL), **HEADS)
    return hybrid_pool(
        full_kv_pool=leaf, mamba_pool=our_state(), full_attention_layer_ids=FULL, start_layer=0
    )


def their_latent_hybrid(**changes: Any) -> Any:
    latent = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "use_mla": True}
    return their_hybrid(size=128, page_size=64, **latent, **changes)


def their_indexed_hybrid() -> Any:
    return their_latent_hybrid(use_dsa=True, index_head_dim=128, kv_cache_dim=576)


def our_hybrid_over_their_parts() -> Any:
    return hybrid_pool(
        full_kv_pool=_their_leaf(16, len(FULL)),
        mamba_pool=their_state(),
        full_attention_layer_ids=FULL,
        start_layer=0,
    )


FAMILIES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "swa, page 1": (lambda: their_windows(1), lambda: our_windows(1)),
    "swa, page 4": (their_windows, our_windows),
    "swa, values narrower": (
        lambda: their_windows(v_head_dim=2),
        lambda: our_windows(v_head_dim=2),
    ),
    "swa, fp8": (lambda: their_windows(dtype=FP8), lambda: our_windows(dtype=FP8)),
    "swa over dsa and mla": (their_latent_windows, our_latent_windows),
    "hybrid over mha": (their_hybrid, our_hybrid),
    "hybrid over mla": (
        their_latent_hybrid,
        lambda: our_hybrid(MLALeaf(size=128, dtype=BF16, layer_num=2, **LATENT)),
    ),
    "hybrid over dsa": (
        their_indexed_hybrid,
        lambda: our_hybrid(DSALeaf(size=128, dtype=BF16, layer_num=2, **INDEXED)),
    ),
    "swa over sglang's leaves": (their_windows, our_windows_over_their_leaves),
    "hybrid over sglang's parts": (their_hybrid, our_hybrid_over_their_parts),
    "state": (their_state, our_state),
    "state, speculative": (
        lambda: their_state(speculative_num_draft_tokens=3),
        lambda: our_state(speculative_num_draft_tokens=3),
    ),
}
"""Name -> how to build sglang's, how to build ours."""
