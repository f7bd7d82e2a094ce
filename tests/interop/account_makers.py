# pyright: basic, reportMissingImports=false
"""sglang's accounts beside the plain ones, and ours for the same arguments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateDType, Mamba2StateShape
from sglang.srt.disaggregation.decode import HybridMambaDecodeReqToTokenPool
from sglang.srt.mem_cache.allocator.hisparse import HiSparseTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.page_interleave import PageInterleavePoolAllocator
from sglang.srt.mem_cache.allocator.swa import (
    PureSWATokenToKVPoolAllocator,
    SWATokenToKVPoolAllocator,
)
from sglang.srt.mem_cache.hisparse_memory_pool import HiSparseMHAMainPool
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool, ReqToTokenPool
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool
from sglang.srt.runtime_context import get_context

from kvproto.protocols import HiSparseAllocatorRequest
from kvproto.reference.build_allocator import build_reference_allocator
from kvproto.reference.hisparse import DeviceLocations
from kvproto.reference.interleaved_allocator import InterleavedAllocator
from kvproto.reference.pure_swa_allocator import PureSWAAllocator
from kvproto.reference.request_pool import ReqToToken
from kvproto.reference.state import RecurrentStatePool
from kvproto.reference.state_request_pool import StateReqToToken
from kvproto.reference.state_slot_allocator import StateSlots
from kvproto.reference.swa_ring_allocator import SWARingAllocator
from tests.interop.allocators import our_single

__all__ = [
    "LAYERS",
    "our_device",
    "our_pure",
    "our_ranks",
    "our_rings",
    "our_rows",
    "our_states",
    "params",
    "real_device",
    "real_pure",
    "real_ranks",
    "real_rings",
    "real_rows",
    "request",
]

LAYERS = [1, 3]


def real_pure(size: int, need_sort: bool = False) -> Any:
    """sglang's allocator of one space of window slots."""
    return PureSWATokenToKVPoolAllocator(
        size, 1, torch.bfloat16, "cpu", _window_pool(size, 1), need_sort
    )


def our_pure(size: int, need_sort: bool = False) -> Any:
    """Ours, for the same arguments."""
    return PureSWAAllocator(size, 1, torch.bfloat16, "cpu", None, need_sort)


def _window_pool(size: int, page_size: int) -> Any:
    return SWAKVPool(
        size=size,
        size_swa=size,
        page_size=page_size,
        dtype=torch.bfloat16,
        head_num=1,
        head_dim=1,
        swa_attention_layer_ids=[0],
        full_attention_layer_ids=[1],
        device="cpu",
        enable_memory_saver=False,
    )


def real_device(pages: int, page_size: int, need_sort: bool = False) -> Any:
    """sglang's ids over a device of so many pages, twice as many ids."""
    pool = HiSparseMHAMainPool(
        size=pages * page_size,
        page_size=page_size,
        dtype=torch.bfloat16,
        head_num=1,
        head_dim=1,
        layer_num=1,
        device="cpu",
        enable_memory_saver=False,
    )
    made = HiSparseTokenToKVPoolAllocator(
        pages * page_size, page_size, torch.bfloat16, "cpu", pool, need_sort, 2
    )
    # The allocator hands the pool a weak reference; the pool outlives neither here.
    made.pool = pool
    return made


def our_device(pages: int, page_size: int, need_sort: bool = False) -> Any:
    """Ours, for the same arguments."""
    request = HiSparseAllocatorRequest(
        size=pages * page_size,
        page_size=page_size,
        device="cpu",
        need_sort=need_sort,
        host_to_device_ratio=2,
    )
    return build_reference_allocator(request, DeviceLocations())


def real_ranks() -> Any:
    """sglang's pages of 3 ranks, 8 of 4 slots each."""
    return PageInterleavePoolAllocator(32, 4, 3, torch.bfloat16, "cpu", None, False)


def our_ranks() -> Any:
    """Ours, for the same arguments."""
    return InterleavedAllocator(32, 4, 3, torch.bfloat16, "cpu", None, False)


def params() -> Any:
    shape = Mamba2StateShape.create(
        tp_world_size=1,
        intermediate_size=4,
        n_groups=1,
        num_heads=2,
        head_dim=2,
        state_size=2,
        conv_kernel=3,
    )
    types = Mamba2StateDType(conv=torch.float32, temporal=torch.float32)
    return Mamba2CacheParams(shape=shape, dtype=types, layers=LAYERS)


def real_rows(
    rows: int = 4,
    slots: int = 9,
    extra: bool = False,
    lazy: bool = False,
    overlap: bool = True,
    pre_alloc_size: int = 0,
) -> Any:
    """sglang's request table with state; its decode variant with `pre_alloc_size`."""
    common: dict[str, Any] = {
        "size": rows,
        "mamba_size": slots,
        "max_context_len": 4,
        "device": "cpu",
        "enable_memory_saver": False,
        "cache_params": params(),
        "mamba_layer_ids": LAYERS,
        "enable_mamba_extra_buffer": extra,
        "enable_overlap_schedule": overlap,
        "speculative_num_draft_tokens": None,
    }
    with get_context().override_server_args():
        if pre_alloc_size:
            return HybridMambaDecodeReqToTokenPool(pre_alloc_size=pre_alloc_size, **common)
        return HybridReqToTokenPool(
            mamba_spec_state_size=rows, enable_mamba_extra_buffer_lazy=lazy, **common
        )


def our_rows(
    rows: int = 4,
    slots: int = 9,
    extra: bool = False,
    lazy: bool = False,
    overlap: bool = True,
    pre_alloc_size: int = 0,
) -> Any:
    """Ours, for the same arguments."""
    return StateReqToToken(
        size=rows,
        max_context_len=4,
        device="cpu",
        enable_memory_saver=False,
        mamba_pool=our_states(slots, *LAYERS),
        mamba_allocator=StateSlots(slots, "cpu"),
        enable_mamba_extra_buffer=extra,
        enable_mamba_extra_buffer_lazy=lazy,
        enable_overlap_schedule=overlap,
        pre_alloc_size=pre_alloc_size,
    )


def our_states(slots: int, *layer_ids: int) -> Any:
    """A state pool of the shapes of `params`."""
    shapes = params().shape
    return RecurrentStatePool(
        size=slots,
        mamba_layer_ids=layer_ids,
        conv_state_shape=shapes.conv,
        temporal_state_shape=shapes.temporal,
        conv_dtype=torch.float32,
        ssm_dtype=torch.float32,
        device="cpu",
    )


def real_rings(need_sort: bool = False) -> Any:
    """sglang's pair in ring mode: 24 pages of 4, rings of 6 for 5 rows."""
    pool = _window_pool(96, 4)
    pool.swa_req_ring_size = 6
    rows = ReqToTokenPool(size=5, max_context_len=4, device="cpu", enable_memory_saver=False)
    with get_context().override_server_args():
        made = SWATokenToKVPoolAllocator(
            96, 96, 4, torch.bfloat16, "cpu", pool, need_sort, req_to_token_pool=rows
        )
    made.rows = rows
    return made


def our_rings(need_sort: bool = False) -> Any:
    """Ours, for the same arguments."""
    rows = ReqToToken(5, 4, "cpu", enable_memory_saver=False)
    made: Any = SWARingAllocator(
        full_attn_allocator=our_single(96, 4, need_sort),
        req_to_token_pool=rows,
        swa_req_ring_size=6,
        kvcache=None,
    )
    made.rows = rows
    return made


def request() -> Any:
    """What both tables read and set; sglang's own has these as properties."""
    return SimpleNamespace(kv=_Held(), rid="r")


class _Held:
    """The part of sglang's request that its tables read."""

    def __init__(self) -> None:
        self.req_pool_idx: int | None = None
        self.kv_allocated_len = 1
        self.mamba_pool_idx: Any = None
        self.mamba_ping_pong_track_buffer: Any = None
        self.mamba_ping_pong_empty: Any = None

    @property
    def holds_kv(self) -> bool:
        """Whether it has a row."""
        return self.req_pool_idx is not None

    @property
    def holds_mamba(self) -> bool:
        """Whether it has a state slot."""
        return self.mamba_pool_idx is not None
