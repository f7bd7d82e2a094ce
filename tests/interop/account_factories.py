# pyright: basic, reportMissingImports=false
"""Factories for the kit: sglang's allocators, and its tables of request rows."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.disaggregation.decode import DecodeReqToTokenPool, HybridMambaDecodeReqToTokenPool
from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.swa import PureSWATokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.memory_pool import HybridReqToTokenPool, ReqToTokenPool
from sglang.srt.runtime_context import get_context

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    StateRequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
)
from tests.interop.allocators import COMMON, real_pair
from tests.interop.composite_factories import cache_params

__all__ = [
    "decode_rows",
    "decode_rows_with_state",
    "pages",
    "pair",
    "rows",
    "rows_with_state",
    "state_slots",
    "tokens",
    "window_only",
]


def tokens(request: Any) -> Any:
    """sglang's allocator of single slots."""
    match request:
        case AllocatorRequest(kind="token", page_size=1):
            return TokenToKVPoolAllocator(request.size, need_sort=request.need_sort, **COMMON)
    return Declined("TokenToKVPoolAllocator hands out single slots")


def pages(request: Any) -> Any:
    """sglang's allocator of pages, with its torch path, as on a CPU."""
    match request:
        case AllocatorRequest(kind="paged"):
            sizes = (request.size, request.page_size)
            return PagedTokenToKVPoolAllocator(*sizes, need_sort=request.need_sort, **COMMON)
    return Declined("PagedTokenToKVPoolAllocator hands out pages")


def pair(request: Any) -> Any:
    """sglang's allocator of a window pair, over its smallest pool."""
    match request:
        case SWAAllocatorRequest():
            return real_pair(request.size, request.size_swa, request.page_size, request.need_sort)
    return Declined("SWATokenToKVPoolAllocator hands out the slots of a window pair")


def window_only(request: Any) -> Any:
    """sglang's allocator of a model of window layers alone, over its smallest pool."""
    match request:
        case PureSWAAllocatorRequest():
            pool = real_pair(request.size_swa, request.size_swa, 1)._kvcache
            rest = (torch.bfloat16, "cpu", pool, request.need_sort)
            return PureSWATokenToKVPoolAllocator(request.size_swa, 1, *rest)
    return Declined("PureSWATokenToKVPoolAllocator hands out the slots of window layers")


def state_slots(request: Any) -> Any:
    """sglang's allocator of state slots."""
    match request:
        case StateSlotsRequest():
            return MambaSlotAllocator(request.size, "cpu")
    return Declined("MambaSlotAllocator hands out state slots")


def rows(request: Any) -> Any:
    """sglang's table of request rows."""
    match request:
        case RequestPoolRequest(pre_alloc_size=0, enable_memory_saver=saver):
            return ReqToTokenPool(request.size, request.max_context_len, "cpu", saver)
    return Declined("ReqToTokenPool is a table of rows, none of them pre-allocated")


def decode_rows(request: Any) -> Any:
    """sglang's table with rows for requests whose cache is on its way."""
    match request:
        case RequestPoolRequest():
            sizes = (request.size, request.max_context_len)
            rest = ("cpu", request.enable_memory_saver, request.pre_alloc_size)
            return DecodeReqToTokenPool(*sizes, *rest)
    return Declined("DecodeReqToTokenPool is a table of rows")


def rows_with_state(request: Any) -> Any:
    """sglang's table of rows that come with slots of recurrent state."""
    if not isinstance(request, StateRequestPoolRequest) or request.pre_alloc_size:
        return Declined("HybridReqToTokenPool is a table of rows with state, none pre-allocated")
    positions, initial = _snapshots(request)
    with get_context().override_server_args():
        return HybridReqToTokenPool(
            mamba_spec_state_size=request.size,
            enable_mamba_extra_buffer_lazy=0 < initial < positions,
            **_with_state(request),
        )


def decode_rows_with_state(request: Any) -> Any:
    """The same with rows for requests whose cache is on its way; no snapshots are put off here."""
    if not isinstance(request, StateRequestPoolRequest):
        return Declined("HybridMambaDecodeReqToTokenPool is a table of rows with state")
    positions, initial = _snapshots(request)
    if 0 < initial < positions:
        return Declined("HybridMambaDecodeReqToTokenPool gives out all snapshot slots at once")
    with get_context().override_server_args():
        return HybridMambaDecodeReqToTokenPool(
            pre_alloc_size=request.pre_alloc_size, **_with_state(request)
        )


def _snapshots(request: StateRequestPoolRequest) -> tuple[int, int]:
    return request.mamba_ping_pong_track_buffer_size, request.mamba_initial_tracking_slots


def _with_state(request: StateRequestPoolRequest) -> dict[str, Any]:
    """What both tables of rows with state are told, by sglang's names."""
    positions, initial = _snapshots(request)
    return {
        "size": request.size,
        "mamba_size": request.state.size,
        "max_context_len": request.max_context_len,
        "device": "cpu",
        "enable_memory_saver": request.rows.enable_memory_saver,
        "cache_params": cache_params(request.state),
        "mamba_layer_ids": list(request.state.mamba_layer_ids),
        "enable_mamba_extra_buffer": initial > 0,
        "enable_overlap_schedule": positions == 2,
        "speculative_num_draft_tokens": request.state.speculative_num_draft_tokens,
        "start_layer": request.start_layer,
    }
