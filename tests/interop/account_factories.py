# pyright: basic, reportMissingImports=false
"""Factories for the kit: sglang's allocators, and its tables of request rows."""

from __future__ import annotations

from typing import Any

import torch
from sglang.srt.disaggregation.decode import DecodeReqToTokenPool
from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.swa import PureSWATokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.memory_pool import ReqToTokenPool

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
)
from tests.interop.allocators import COMMON, real_pair

__all__ = [
    "decode_rows",
    "pages",
    "pair",
    "rows",
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
