# pyright: basic, reportMissingImports=false
"""sglang's host pools, each beside the real pool that it mirrors, and tables of requests to come.

Runs in `.interop-venv`. Host memory is not pinned: there is no CUDA to pin it for, and where a
constructor insists, what would pin it is stood in for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock, patch

import torch
from sglang.srt.disaggregation.decode import (
    DecodeReqToTokenPool,
    HybridMambaDecodeReqToTokenPool,
)
from sglang.srt.mem_cache import memory_pool as base
from sglang.srt.mem_cache import minimax_m3_nvfp4_pool as nvfp4
from sglang.srt.mem_cache import unified_memory_pool as unified
from sglang.srt.mem_cache.memory_pool_host import (
    DeepSeekV4PagedHostPool,
    DeepSeekV4StateHostPool,
    LogicalHostPool,
)
from sglang.srt.mem_cache.page_interleave import PageInterleavePlacement, PageShardSpec
from sglang.srt.mem_cache.pool_host import common
from sglang.srt.mem_cache.pool_host.dsa import DSAIndexerPoolHost, make_dsa_indexer_pool_decl
from sglang.srt.mem_cache.pool_host.group import HostPoolGroup, PoolEntry
from sglang.srt.mem_cache.pool_host.mamba import MambaPoolHost
from sglang.srt.mem_cache.pool_host.mha import (
    AsymmetricMHATokenToKVPoolHost,
    HiSparseMHATokenToKVPoolHost,
    MHATokenToKOnlyPoolHost,
    MHATokenToKVPoolHost,
)
from sglang.srt.mem_cache.pool_host.mha_mxfp8 import MHATokenToKVPoolMXFP8Host
from sglang.srt.mem_cache.pool_host.minimax_m3_nvfp4 import (
    MiniMaxM3Nvfp4IndexKPoolHost,
    MiniMaxM3Nvfp4MainKVPoolHost,
)
from sglang.srt.mem_cache.pool_host.mla import MLATokenToKVPoolHost
from sglang.srt.mem_cache.pool_host.page_interleave import PageInterleaveHostPool
from sglang.srt.mem_cache.pool_host.qsa import QSAIndexerPoolHost
from sglang.srt.mem_cache.pool_host.unified import UnifiedPageEnvelopeHostPool
from sglang.srt.mem_cache.qsa_kv_pool import QSATokenToKVPool

from tests.interop import pools

__all__ = ["MAKERS", "SHARDS"]

SHARDS = PageShardSpec(
    shard_rank=0, shard_size=2, page_size=64, max_prefix_tokens=128, chunk_tokens=64
)
TWICE = {"host_to_device_ratio": 2.0, "host_size": 0, "pin_memory": False}
LAYERS = {"start_layer": 0, "end_layer": 2}
PAGES = {"page_size": 64, "device_capacity_tokens": 128}
BY_LAYER = {"layout": "layer_first"}


def host_rows(cls: type = MHATokenToKVPoolHost, layout: str = "layer_first", **mha: object) -> Any:
    pool = base.MHATokenToKVPool(**pools.MHA | mha, **pools.ON_CPU)
    return cls(_infos(pool), **TWICE, **LAYERS, **PAGES, layout=layout)


def host_rows_of_two_widths() -> object:
    return host_rows(AsymmetricMHATokenToKVPoolHost, "page_first", v_head_dim=32)


def host_rows_with_scales() -> object:
    wide = {"page_size": 128}
    pool = base.MHATokenToKVPoolMXFP8(**pools.MHA | {"dtype": pools.FP8} | wide, **pools.ON_CPU)
    return MHATokenToKVPoolMXFP8Host(
        _infos(pool), **TWICE, **LAYERS, **PAGES | wide, layout="page_first"
    )


def host_rows_by_token() -> object:
    pool = base.MHATokenToKVPool(**pools.MHA, **pools.ON_CPU)
    with patch.object(common, "_cuda_host_register", MagicMock()):
        return HiSparseMHATokenToKVPoolHost(
            _infos(pool), host_to_device_ratio=2.0, **LAYERS, **PAGES
        )


def host_latents() -> Any:
    pool = base.MLATokenToKVPool(**pools.MLA, **pools.ON_CPU)
    return MLATokenToKVPoolHost(
        _infos(pool), **TWICE, **LAYERS, **PAGES, **BY_LAYER, target_layer_num=2
    )


def host_keys() -> object:
    pool = base.MHATokenToKOnlyPool(**pools.MHA, **pools.ON_CPU)
    return MHATokenToKOnlyPoolHost(pool, host_rows(), **BY_LAYER, pin_memory=False)


def host_index_keys() -> object:
    decl = make_dsa_indexer_pool_decl(base.DSATokenToKVPool(**pools.DSA, **pools.ON_CPU))
    return DSAIndexerPoolHost(decl, host_latents(), pin_memory=False)


def host_compressed_index_keys() -> object:
    pool = QSATokenToKVPool(
        **pools.HYBRID | pools.ODD_FULL | {"mamba_pool": pools._state_pool()},
        qsa_index_kv_heads=1,
        qsa_index_head_dim=64,
        qsa_compress_ratio=4,
        qsa_token_topk=64,
        num_request_slots=2,
    )
    return QSAIndexerPoolHost(pool, host_rows())


def host_states() -> object:
    info = _infos(pools._state_pool())
    return MambaPoolHost(info, **TWICE, device_capacity=4, layout="page_first")


def host_nvfp4_rows() -> Any:
    info = _infos(nvfp4.MiniMaxM3Nvfp4MainKVPool(**_nvfp4(), **pools.ON_CPU))
    pages = {"page_size": 128, "device_capacity_tokens": 128}
    return MiniMaxM3Nvfp4MainKVPoolHost(info, **TWICE, **LAYERS, **pages, **BY_LAYER)


def host_nvfp4_index_keys() -> object:
    info = _infos(nvfp4.MiniMaxM3Nvfp4IndexKPool(**_nvfp4(), **pools.ON_CPU))
    return MiniMaxM3Nvfp4IndexKPoolHost(
        info, host_nvfp4_rows(), **BY_LAYER, pin_memory=False, **LAYERS
    )


def host_packed_pages() -> object:
    buffers = [torch.zeros(4, 1024, dtype=torch.uint8)]
    return DeepSeekV4PagedHostPool(
        "c4", buffers, item_bytes=1024, num_host_pages=4, slot_page_size=64, pin_memory=False
    )


def host_compressed_states() -> object:
    pool: Any = pools._dsv4({"qk_nope_head_dim": 448, "qk_rope_head_dim": 64})
    states = [pool.get_attention_compress_states(1)]
    return DeepSeekV4StateHostPool(
        "c4 states", states, num_host_pages=4, swa_page_size=256, pin_memory=False
    )


def host_envelopes() -> object:
    rows = {"layer_num": 2, "head_num": 1, "head_dim": 64, "store_dtype": pools.BF16}
    buffer = pools._unified_buffer(
        unified.MHASubPoolSpec(name="full", grow_direction="up", **rows),
        unified.MHASubPoolSpec(name="swa", grow_direction="down", **rows),
    )
    pool = unified.UnifiedMHATokenToKVPool(unified_buffer=buffer, sub_pool_name="full")
    return UnifiedPageEnvelopeHostPool(pool, **TWICE, page_size=1, layout="page_first")


def host_sharded() -> object:
    return PageInterleaveHostPool(host_rows(), PageInterleavePlacement(SHARDS))


def logical_host() -> object:
    return LogicalHostPool(size=128, page_size=64)


def host_group() -> object:
    entry = PoolEntry(
        name="kv", host_pool=logical_host(), device_pool=None, layer_mapper=lambda layer: layer
    )
    return HostPoolGroup([entry])


def requests_to_come() -> object:
    return DecodeReqToTokenPool(size=2, max_context_len=8, pre_alloc_size=1, **pools.ON_CPU)


def requests_with_states_to_come() -> object:
    return HybridMambaDecodeReqToTokenPool(
        size=2,
        max_context_len=8,
        cache_params=pools._state_params(),
        mamba_layer_ids=[0, 2],
        speculative_num_draft_tokens=None,
        enable_mamba_extra_buffer=False,
        pre_alloc_size=1,
        enable_overlap_schedule=True,
        mamba_size=4,
        **pools.ON_CPU,
    )


def _infos(pool: Any) -> Any:
    return pool.get_device_pool_infos()[0].buffer_info


def _nvfp4() -> dict[str, object]:
    return pools.MHA | {"dtype": torch.uint8, "head_dim": 128, "page_size": 128}


MAKERS: tuple[Callable[[], object], ...] = (
    host_rows,
    host_rows_of_two_widths,
    host_rows_with_scales,
    host_rows_by_token,
    host_latents,
    host_keys,
    host_index_keys,
    host_compressed_index_keys,
    host_states,
    host_nvfp4_rows,
    host_nvfp4_index_keys,
    host_packed_pages,
    host_compressed_states,
    host_envelopes,
    host_sharded,
    logical_host,
    host_group,
    requests_to_come,
    requests_with_states_to_come,
)
