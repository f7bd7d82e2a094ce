# pyright: basic, reportMissingImports=false
"""More of sglang's real objects that gates are asked about: sharded pools, allocators, and others.

Runs in `.interop-venv`. Communicators of groups that are not there are stood in for.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

from sglang.srt.mem_cache import deepseek_v4_memory_pool as dsv4
from sglang.srt.mem_cache import dsa_cache_layer_split, page_interleave_pool
from sglang.srt.mem_cache import hisparse_memory_pool as hisparse
from sglang.srt.mem_cache import memory_pool as base
from sglang.srt.mem_cache import unified_memory_pool as unified
from sglang.srt.mem_cache.allocator.hisparse import (
    DeepSeekV4HiSparseTokenToKVPoolAllocator,
    HiSparseTokenToKVPoolAllocator,
)
from sglang.srt.mem_cache.allocator.page_interleave import PageInterleavePoolAllocator
from sglang.srt.mem_cache.allocator.swa import (
    PureSWATokenToKVPoolAllocator,
    SWATokenToKVPoolAllocator,
)
from sglang.srt.mem_cache.allocator.unified_hybrid_swa import UnifiedSWATokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.unified_mamba import UnifiedMambaTokenToKVPoolAllocator
from sglang.srt.runtime_context import get_context

from tests.interop import pools
from tests.interop.gates import draft_pools, host_pools, vendor_pools

__all__ = ["more_objects"]

SHARDED = {
    "shard_spec": host_pools.SHARDS,
    "shard_group": SimpleNamespace(world_size=2, rank_in_group=0, cpu_group=None, device="cpu"),
}
TOKENS = {"dtype": pools.BF16, "device": "cpu", "need_sort": False}


def more_objects() -> tuple[dict[str, Any], dict[str, str]]:
    """The objects by class, and by maker what sglang says of those that cannot be built here."""
    built: dict[str, Any] = {}
    refused: dict[str, str] = {}
    for make in (*_MAKERS, *draft_pools.MAKERS, *host_pools.MAKERS, *vendor_pools.MAKERS):
        try:
            with get_context().override_server_args():
                made = make()
        except Exception as error:  # what sglang says of this machine is told, and looked at
            refused[make.__name__] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        else:
            assert built.setdefault(type(made).__name__, made) is made, make.__name__
    early, _ = draft_pools.requests_before_their_allocator()
    return built | {f"{type(early).__name__} (before its allocator)": early}, refused


def sharded_mha() -> object:
    with patch.object(page_interleave_pool, "PyNcclCommunicator", MagicMock()):
        return page_interleave_pool.PageInterleaveMHATokenToKVPool(
            **pools.MHA, **pools.ON_CPU, **SHARDED
        )


def sharded_mla() -> object:
    with patch.object(page_interleave_pool, "PyNcclCommunicator", MagicMock()):
        return page_interleave_pool.PageInterleaveMLATokenToKVPool(
            **pools.MLA, **pools.ON_CPU, **SHARDED
        )


def sharded_dsa() -> object:
    with patch.object(page_interleave_pool, "PyNcclCommunicator", MagicMock()):
        return page_interleave_pool.PageInterleaveDSATokenToKVPool(
            **pools.DSA, **pools.ON_CPU, **SHARDED
        )


def split_by_layer() -> object:
    ranks = SimpleNamespace(attn_cp_group=SimpleNamespace(world_size=2, pynccl_comm=None))
    with patch.object(dsa_cache_layer_split, "get_parallel", lambda: ranks):
        return dsa_cache_layer_split.LayerSplitDSATokenToKVPool(
            **pools.DSA, **pools.ON_CPU, layer_shard_rank=0, layer_shard_size=2
        )


def page_major() -> object:
    return base.PageMajorMHATokenToKVPool(**pools.MHA, **pools.ON_CPU)


def sharded_allocator() -> object:
    return PageInterleavePoolAllocator(
        size=128, physical_page_size=64, shard_size=2, kvcache=None, **TOKENS
    )


def hisparse_allocator() -> object:
    pool = hisparse.HiSparseDSATokenToKVPool(**pools.DSA, **pools.ON_CPU)
    return HiSparseTokenToKVPoolAllocator(size=128, page_size=64, kvcache=pool, **TOKENS)


def window_allocator() -> object:
    return PureSWATokenToKVPoolAllocator(size_swa=64, page_size=1, kvcache=pools._swa(1), **TOKENS)


def unified_allocator() -> Any:
    pool = _unified_pair()
    return UnifiedSWATokenToKVPoolAllocator(
        unified_buffer=pool.full_kv_pool._unified_buffer, kvcache=pool, device="cpu"
    )


def unified_side() -> object:
    return unified_allocator().full_attn_allocator


def compressed_hisparse_allocator() -> object:
    row = {"qk_nope_head_dim": 448, "qk_rope_head_dim": 64}
    pool = pools._dsv4(row, enable_hisparse=True)
    window = SWATokenToKVPoolAllocator(
        size=256, size_swa=256, page_size=256, kvcache=pool, **TOKENS
    )
    return DeepSeekV4HiSparseTokenToKVPoolAllocator(window)


def state_allocator() -> object:
    rows = {"layer_num": 2, "head_num": 1, "head_dim": 64, "store_dtype": pools.BF16}
    params = pools._state_params()
    state = unified.MambaSubPoolSpec(
        name="mamba",
        grow_direction="down",
        layer_num=2,
        conv_state_shapes=tuple(params.shape.conv),
        conv_dtype=params.dtype.conv,
        temporal_state_shape=params.shape.temporal,
        temporal_dtype=params.dtype.temporal,
    )
    full = unified.MHASubPoolSpec(name="full", grow_direction="up", **rows)
    buffer = pools._unified_buffer(full, state)
    parts = {
        "full_kv_pool": unified.UnifiedMHATokenToKVPool(
            unified_buffer=buffer, sub_pool_name="full"
        ),
        "mamba_pool": unified.UnifiedMambaPool(
            unified_buffer=buffer, sub_pool_name="mamba", spec_state_size=0, mamba_layer_ids=[0, 2]
        ),
    }
    pool = unified.UnifiedHybridLinearKVPool(**pools.HYBRID, **pools.ODD_FULL, **parts)
    return UnifiedMambaTokenToKVPoolAllocator(unified_buffer=buffer, kvcache=pool, device="cpu")


def compressed_rows_in_fp8() -> object:
    bytes_ = {"size": 256, "page_size": 64, "dtype": pools.FP8, "layer_num": 2}
    row = {"qk_nope_head_dim": 448, "qk_rope_head_dim": 64}
    return dsv4.DeepSeekV4UniformFP8KVPool(**bytes_, **row, **pools.ON_CPU)


def compressed_states() -> object:
    pool: Any = pools._dsv4({"qk_nope_head_dim": 448, "qk_rope_head_dim": 64})
    return pool.get_attention_compress_states(1)


def _unified_pair() -> Any:
    rows = {"layer_num": 2, "head_num": 1, "head_dim": 64, "store_dtype": pools.BF16}
    full = unified.MHASubPoolSpec(name="full", grow_direction="up", **rows)
    swa = unified.MHASubPoolSpec(name="swa", grow_direction="down", **rows)
    buffer = pools._unified_buffer(full, swa)
    return unified.UnifiedSWAKVPool(unified_buffer=buffer, **pools.EVEN_WINDOWED)


_MAKERS: tuple[Callable[[], object], ...] = (
    sharded_mha,
    sharded_mla,
    sharded_dsa,
    split_by_layer,
    page_major,
    sharded_allocator,
    hisparse_allocator,
    window_allocator,
    unified_allocator,
    unified_side,
    compressed_hisparse_allocator,
    state_allocator,
    compressed_rows_in_fp8,
    compressed_states,
)
