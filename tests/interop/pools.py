# pyright: basic, reportMissingImports=false
"""sglang's real pools, allocators and small companions, tiny and on the CPU, by name.

Runs in `.interop-venv`. Nothing is patched; the few process-wide settings that sglang's launcher
would have made are made here, through sglang's own doors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateDType, Mamba2StateShape
from sglang.srt.hardware_backend.npu import memory_pool_npu as npu
from sglang.srt.layers.radix_attention import RadixAttention
from sglang.srt.managers.cache_controller import LayerDoneCounter
from sglang.srt.mem_cache import deepseek_v4_memory_pool as dsv4
from sglang.srt.mem_cache import (
    dsa_cache_layer_split,  # noqa: F401  (defines a pool class that is listed, not built)
    page_interleave_pool,  # noqa: F401
    unified_draft_pool,  # noqa: F401
)
from sglang.srt.mem_cache import hisparse_memory_pool as hisparse
from sglang.srt.mem_cache import memory_pool as base
from sglang.srt.mem_cache import minimax_m3_nvfp4_pool as nvfp4
from sglang.srt.mem_cache import unified_memory_pool as unified
from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.qsa_kv_pool import QSATokenToKVPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.runtime_context import get_context

from tests.interop import single_rank  # noqa: F401

__all__ = ["pool_classes", "real_objects", "real_pools"]

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
ON_CPU = {"device": "cpu", "enable_memory_saver": False}
MHA = {"size": 128, "page_size": 64, "dtype": BF16, "head_num": 1, "head_dim": 64, "layer_num": 2}
MLA = {
    "size": 128,
    "page_size": 64,
    "dtype": BF16,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "layer_num": 2,
}
DSA = MLA | {"index_head_dim": 128, "kv_cache_dim": 576}
WINDOWED = {"size": 128, "size_swa": 64, "dtype": BF16, "head_num": 1, "head_dim": 64}
EVEN_WINDOWED = {"swa_attention_layer_ids": [0, 2], "full_attention_layer_ids": [1, 3]}
HYBRID = {"size": 64, "page_size": 64, "dtype": BF16, "head_num": 1, "head_dim": 64}
ODD_FULL = {"full_attention_layer_ids": [1, 3], "device": "cpu"}


def pool_classes() -> list[type]:
    """Every pool class that can be imported here, the abstract ones included."""
    found, waiting = set(), [base.KVCache]
    while waiting:
        found.add(cls := waiting.pop())
        waiting += cls.__subclasses__()
    # The probe makes subclasses of its own to try `adopt` on.
    return sorted((c for c in found if c.__module__.startswith("sglang.")), key=_name)


def real_pools() -> dict[str, Any]:
    """Every pool that can be constructed without an accelerator or a process group."""
    families = (_mha, _mla, _dsa, _window, _hybrid, _sparse, _unified, _compressed, _npu)
    return {_label(pool, note): pool for family in families for note, pool in family()}


def real_objects() -> dict[str, Any]:
    """What is no pool and yet stands behind a protocol: allocators, layers, locations."""
    mha, swa = base.MHATokenToKVPool(**MHA, **ON_CPU), _swa(64)
    tokens = {"size": 128, "dtype": BF16, "device": "cpu", "need_sort": False}
    with get_context().override_server_args():
        window = SWATokenToKVPoolAllocator(size_swa=64, page_size=64, kvcache=swa, **tokens)
    built = [
        TokenToKVPoolAllocator(kvcache=mha, **tokens),
        PagedTokenToKVPoolAllocator(page_size=64, kvcache=mha, **tokens),
        window,
        MambaSlotAllocator(size=4, device="cpu"),
        _state_pool(),
        base.ReqToTokenPool(size=2, max_context_len=8, **ON_CPU),
        _hybrid_requests(),
        RadixAttention(1, 64, 1.0, 1, layer_id=0),
        LayerDoneCounter(2),
        base.KVWriteLoc(torch.tensor([1])),
    ]
    return {_name(type(made)): made for made in built}


def _mha() -> Iterator[tuple[str, object]]:
    yield "bf16", base.MHATokenToKVPool(**MHA, **ON_CPU)
    yield "fp8", base.MHATokenToKVPool(**MHA | {"dtype": FP8}, **ON_CPU)
    yield "stage 8..9", base.MHATokenToKVPool(**MHA, **ON_CPU, start_layer=8, end_layer=10)
    yield "no layers", base.MHATokenToKVPool(**MHA | {"layer_num": 0}, **ON_CPU)
    yield "fp8", base.MHATokenToKVPoolMXFP8(**MHA | {"dtype": FP8}, **ON_CPU)
    yield "bf16", base.MHATokenToKVPoolFP4(**MHA, **ON_CPU)
    yield "bf16", base.NoOpMHATokenToKVPool(**MHA, **ON_CPU)
    yield "bf16", base.MHATokenToKOnlyPool(**MHA, **ON_CPU)
    yield "bf16", hisparse.HiSparseMHAMainPool(**MHA, **ON_CPU)


def _mla() -> Iterator[tuple[str, object]]:
    yield "bf16", base.MLATokenToKVPool(**MLA, **ON_CPU)
    yield "fp8", base.MLATokenToKVPool(**MLA | {"dtype": FP8}, **ON_CPU)
    yield "bf16", base.MLATokenToKVPoolFP4(**MLA, **ON_CPU)


def _dsa() -> Iterator[tuple[str, object]]:
    compressed = {"size": 256, "page_size": 256, "index_kpool": 4, "index_kpool_compress": True}
    yield "bf16", base.DSATokenToKVPool(**DSA, **ON_CPU)
    yield "fp8 packed", base.DSATokenToKVPool(**DSA | {"dtype": FP8, "kv_cache_dim": 656}, **ON_CPU)
    yield "kpool", base.DSATokenToKVPool(**DSA | compressed, **ON_CPU, max_running_requests=2)
    yield "bf16", hisparse.HiSparseDSATokenToKVPool(**DSA, **ON_CPU)


def _window() -> Iterator[tuple[str, object]]:
    mla, dsa = _leaf_keywords(MLA), _leaf_keywords(DSA)
    yield "MHA, page 1", _swa(1)
    yield "MHA, page 4", _swa(4)
    yield "MXFP8", _swa(64, dtype=FP8, token_to_kv_pool_class=base.MHATokenToKVPoolMXFP8)
    latent = _swa(
        64,
        full_kv_pool_class=base.DSATokenToKVPool,
        swa_kv_pool_class=base.MLATokenToKVPool,
        full_kv_pool_kwargs=dsa,
        swa_kv_pool_kwargs=mla,
    )
    # The others are seen before their allocator came.
    latent.register_mapping(torch.arange(-1, 192).roll(-1))
    yield "DSA and MLA", latent


def _hybrid() -> Iterator[tuple[str, object]]:
    latent = {"use_mla": True, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    indexed = latent | {"use_dsa": True, "index_head_dim": 128, "kv_cache_dim": 576}
    plain = HYBRID | ODD_FULL | {"mamba_pool": _state_pool()}
    yield "MHA", base.HybridLinearKVPool(**plain)
    yield "MLA", base.HybridLinearKVPool(**plain, **latent)
    yield "DSA", base.HybridLinearKVPool(**plain, **indexed)
    yield (
        "MHA",
        QSATokenToKVPool(
            **plain,
            qsa_index_kv_heads=1,
            qsa_index_head_dim=64,
            qsa_compress_ratio=4,
            qsa_token_topk=64,
            num_request_slots=2,
        ),
    )


def _sparse() -> Iterator[tuple[str, object]]:
    layers = {"dense_layer_ids": [0], "sparse_layer_ids": [1, 2], "start_layer": 0, "end_layer": 3}
    rows = {"size": 128, "dtype": BF16, "head_num": 1, "device": "cpu"}
    narrow = rows | {"page_size": 64, "head_dim": 64, "idx_head_dim": 64}
    wide = rows | {"page_size": 128, "head_dim": 128, "idx_head_dim": 128, "index_dtype": BF16}
    only_sparse = layers | {"dense_layer_ids": [], "disable_value_sparse_layer_ids": [1, 2]}
    packed = MHA | {"dtype": torch.uint8, "head_dim": 128, "page_size": 128}
    yield "bf16", base.MiniMaxSparseKVPool(**narrow, **layers)
    yield "nvfp4", nvfp4.MiniMaxM3Nvfp4KVPool(**wide, **only_sparse)
    yield "nvfp4", nvfp4.MiniMaxM3Nvfp4MainKVPool(**packed, **ON_CPU)
    yield "nvfp4", nvfp4.MiniMaxM3Nvfp4IndexKPool(**packed, **ON_CPU)


def _unified() -> Iterator[tuple[str, object]]:
    rows = {"layer_num": 2, "head_num": 1, "head_dim": 64, "store_dtype": BF16}
    latent = {"layer_num": 2, "kv_lora_rank": 64, "qk_rope_head_dim": 16, "store_dtype": BF16}
    full = unified.MHASubPoolSpec(name="full", grow_direction="up", **rows)
    two_mha = _unified_buffer(
        full, unified.MHASubPoolSpec(name="swa", grow_direction="down", **rows)
    )
    with_mla = _unified_buffer(
        full, unified.MLASubPoolSpec(name="mla", grow_direction="down", **latent)
    )
    mha = unified.UnifiedMHATokenToKVPool(unified_buffer=two_mha, sub_pool_name="full")
    yield "bf16", mha
    yield "MHA", unified.UnifiedSWAKVPool(unified_buffer=two_mha, **EVEN_WINDOWED)
    parts = {"full_kv_pool": mha, "mamba_pool": _state_pool()}
    yield "MHA", unified.UnifiedHybridLinearKVPool(**HYBRID, **ODD_FULL, **parts)
    yield (
        "bf16",
        unified.UnifiedMLATokenToKVPool(
            unified_buffer=with_mla, sub_pool_name="mla", kv_cache_dtype=BF16
        ),
    )


def _compressed() -> Iterator[tuple[str, object]]:
    bytes_ = {"size": 256, "page_size": 64, "dtype": torch.uint8, "layer_num": 2}
    row = {"qk_nope_head_dim": 448, "qk_rope_head_dim": 64}
    yield "V4", dsv4.DeepSeekV4SingleKVPool(**bytes_, **row, **ON_CPU)
    yield "V4", dsv4.HiSparseC4DevicePool(**bytes_, **row, **ON_CPU)
    with get_context().override_server_args():
        yield "V4", dsv4.DeepSeekV4IndexerPool(**bytes_, index_head_dim=128, **ON_CPU)
        yield "V4", _dsv4(row)


def _npu() -> Iterator[tuple[str, object]]:
    yield "bf16 on the CPU", npu.NPUMHATokenToKVPool(**MHA, **ON_CPU)
    yield "bf16 on the CPU", npu.NPUMLATokenToKVPool(**MLA, **ON_CPU)


def _swa(page_size: int, **options: object) -> SWAKVPool:
    return SWAKVPool(page_size=page_size, **WINDOWED | EVEN_WINDOWED | ON_CPU | options)


def _dsv4(row: dict[str, int], **options: object) -> object:
    sizes = {"swa_size": 256, "c4_size": 64, "c128_size": 2}
    states = {"c4_state_pool_size": 64, "c128_state_pool_size": 64, "max_num_reqs": 2}
    pages = {"page_size": 256, "swa_page_size": 256, "dtype": torch.uint8, "indexer_head_dim": 128}
    state_types = {"c4_state_dtype": torch.float32, "c128_state_dtype": torch.float32}
    layers = {"layer_num": 3, "compression_ratios": [0, 4, 128]}
    return dsv4.DeepSeekV4TokenToKVPool(
        **row, **sizes, **states, **pages, **state_types, **layers, **ON_CPU, **options
    )


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
    types = Mamba2StateDType(conv=torch.float32, temporal=torch.float32)
    return Mamba2CacheParams(shape=shape, dtype=types, layers=[0, 2])


def _state_pool() -> base.MambaPool:
    return base.MambaPool(
        size=4,
        spec_state_size=0,
        cache_params=_state_params(),
        mamba_layer_ids=[0, 2],
        device="cpu",
    )


def _hybrid_requests() -> base.HybridReqToTokenPool:
    return base.HybridReqToTokenPool(
        size=2,
        mamba_size=4,
        mamba_spec_state_size=0,
        max_context_len=8,
        cache_params=_state_params(),
        mamba_layer_ids=[0, 2],
        enable_mamba_extra_buffer=False,
        **ON_CPU,
    )


def _unified_buffer(*specs: object) -> unified.UnifiedKVPool:
    return unified.UnifiedKVPool(total_bytes=1 << 20, sub_pool_specs=list(specs), **ON_CPU)


def _leaf_keywords(request: Mapping[str, object]) -> dict[str, object]:
    """What a window pool does not itself pass to its leaf."""
    by_composite = ("size", "dtype", "layer_num")
    return ON_CPU | {name: value for name, value in request.items() if name not in by_composite}


def _label(pool: object, note: str) -> str:
    return f"{_name(type(pool))} ({note})"


def _name(cls: type) -> str:
    return cls.__name__
