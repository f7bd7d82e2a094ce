"""The reference allocator, state slots or request table for a request."""

from __future__ import annotations

from typing import TypeAlias

import torch

from kvproto.protocols import (
    AllocatorRequest,
    RequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
)

from .paged_allocator import PageAllocator
from .request_pool import ReqToToken
from .state_slot_allocator import StateSlots
from .swa_allocator import SWAPairAllocator
from .token_allocator import TokenAllocator

__all__ = ["AccountRequest", "build_reference_allocator"]

AccountRequest: TypeAlias = (
    AllocatorRequest | SWAAllocatorRequest | StateSlotsRequest | RequestPoolRequest
)
"""Whatever keeps accounts of slots or rows, and holds no row itself."""


def build_reference_allocator(
    request: AccountRequest, /, kvcache: object = None
) -> TokenAllocator | PageAllocator | SWAPairAllocator | StateSlots | ReqToToken:
    """What keeps the accounts that are asked for; `kvcache` is the pool they are of.

    :raises ValueError: for sizes no account can have.
    """
    match request:
        case AllocatorRequest(kind="token"):
            return TokenAllocator(
                request.size, torch.int64, request.device, kvcache, request.need_sort
            )
        case AllocatorRequest():
            return _paged(request.size, request, kvcache)
        case SWAAllocatorRequest():
            return SWAPairAllocator(
                full_attn_allocator=_side(request.size, request, kvcache),
                swa_attn_allocator=_side(request.size_swa, request, kvcache),
                kvcache=kvcache,
            )
        case StateSlotsRequest():
            return StateSlots(request.size, request.device)
        case RequestPoolRequest():
            return ReqToToken(
                request.size,
                request.max_context_len,
                request.device,
                enable_memory_saver=request.enable_memory_saver,
                pre_alloc_size=request.pre_alloc_size,
            )


def _side(
    size: int, request: SWAAllocatorRequest, kvcache: object
) -> TokenAllocator | PageAllocator:
    if request.page_size == 1:
        return TokenAllocator(size, torch.int64, request.device, kvcache, request.need_sort)
    return _paged(size, request, kvcache)


def _paged(
    size: int, request: AllocatorRequest | SWAAllocatorRequest, kvcache: object
) -> PageAllocator:
    return PageAllocator(
        size, request.page_size, torch.int64, request.device, kvcache, request.need_sort
    )
