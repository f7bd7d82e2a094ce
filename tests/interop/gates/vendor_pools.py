# pyright: basic, reportMissingImports=false
"""sglang's pools for NPUs and for MLX, built in host memory.

Runs in `.interop-venv`. While their modules are imported, modules without behaviour stand in for
`torch_npu` and `mlx`, which are not there: none of their functions is called by a constructor.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

import torch
from sglang.srt.hardware_backend.npu import memory_pool_npu as npu
from sglang.srt.hardware_backend.npu.allocator_npu import NPUPagedTokenToKVPoolAllocator
from sglang.srt.mem_cache import deepseek_v4_memory_pool

from tests.interop import pools

__all__ = ["MAKERS"]

ABSENT = ["torch_npu", "mlx", "mlx.core", "mlx.nn", "mlx.utils", "mlx_lm", "mlx_lm.models"]
ABSENT += ["mlx_lm.models.base", "mlx_lm.models.cache"]
NPU = "sglang.srt.hardware_backend.npu.dsv4"
MLX = "sglang.srt.hardware_backend.mlx.kv_cache.auxiliary_state"


class StandIn(ModuleType):
    """A module that has every class."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        inner = f"{self.__name__}.{name}"
        return sys.modules[inner] if inner in sys.modules else type(name, (), {})


def compressed_on_npu() -> Any:
    cls = _of(f"{NPU}.dsv4_memory_pool").DSV4NPUTokenToKVPool
    with patch.object(deepseek_v4_memory_pool, "DeepSeekV4TokenToKVPool", cls):
        return pools._dsv4({"qk_nope_head_dim": 448, "qk_rope_head_dim": 64})


def compressed_rows_on_npu() -> object:
    return compressed_on_npu().swa_kv_pool


def compressed_index_keys_on_npu() -> object:
    return compressed_on_npu()._indexer_pool(4)


def compressed_states_on_npu() -> object:
    return compressed_on_npu().get_attention_compress_states(1)


def compressed_allocator_on_npu() -> object:
    return _of(f"{NPU}.dsv4_allocator").DSV4NPUTokenToKVPoolAllocator(
        size=256,
        size_swa=256,
        page_size=256,
        dtype=pools.BF16,
        device="cpu",
        kvcache=compressed_on_npu(),
        need_sort=False,
    )


def compressed_requests_on_npu() -> object:
    cls = _of(f"{NPU}.dsv4_req_to_token_pool").DSV4NPUReqToTokenPool
    return cls(size=2, max_context_len=256, **pools.ON_CPU)


def compressed_requests_to_come_on_npu() -> object:
    cls = _of(f"{NPU}.dsv4_req_to_token_pool").DSV4NPUDecodeReqToTokenPool
    return cls(size=2, max_context_len=256, pre_alloc_size=1, **pools.ON_CPU)


def keys_on_npu() -> object:
    return npu.NPUMHATokenToKOnlyPool(**pools.MHA, **pools.ON_CPU)


def sparse_on_npu() -> object:
    rows = {"size": 128, "page_size": 64, "dtype": pools.BF16, "head_num": 1, "device": "cpu"}
    layers = {"dense_layer_ids": [0], "sparse_layer_ids": [1, 2], "start_layer": 0, "end_layer": 3}
    return npu.NPUMiniMaxSparseKVPool(**rows, **layers, head_dim=64, idx_head_dim=64)


def paged_allocator_on_npu() -> object:
    pool = npu.NPUMHATokenToKVPool(**pools.MHA, **pools.ON_CPU)
    return NPUPagedTokenToKVPoolAllocator(
        size=128, page_size=64, dtype=torch.bfloat16, device="cpu", kvcache=pool, need_sort=False
    )


def snapshots() -> object:
    return _of(MLX).MlxAuxiliaryStatePool(4, "cpu")


def requests_with_snapshots() -> object:
    cls = _of(MLX).MlxAuxiliaryStateReqToTokenPool
    return cls(size=2, max_context_len=8, auxiliary_state_size=4, **pools.ON_CPU)


def _of(module: str) -> Any:
    with _absent():
        return import_module(module)


@contextmanager
def _absent() -> Iterator[None]:
    """Not longer than an import: whoever looks for a device must go on finding none."""
    missing = [name for name in ABSENT if name not in sys.modules]
    sys.modules.update({name: StandIn(name) for name in missing})
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


MAKERS: tuple[Callable[[], object], ...] = (
    compressed_on_npu,
    compressed_rows_on_npu,
    compressed_index_keys_on_npu,
    compressed_states_on_npu,
    compressed_allocator_on_npu,
    compressed_requests_on_npu,
    compressed_requests_to_come_on_npu,
    keys_on_npu,
    sparse_on_npu,
    paged_allocator_on_npu,
    snapshots,
    requests_with_snapshots,
)
