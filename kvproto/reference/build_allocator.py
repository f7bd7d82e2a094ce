"""The reference allocator, state slots or request table for a request."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    HiSparseAllocatorRequest,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    ShardedAllocatorRequest,
    SlotAllocator,
    StateSlotsRequest,
    SWAAllocatorRequest,
    VirtualIdsRequest,
)

from .hisparse_allocator import DeviceSubsetAllocator
from .interleaved_allocator import InterleavedAllocator
from .paged_allocator import PageAllocator
from .pure_swa_allocator import PureSWAAllocator
from .request_pool import ReqToToken
from .state_slot_allocator import StateSlots
from .swa_allocator import SWAPairAllocator
from .token_allocator import TokenAllocator
from .virtual_ids import VirtualIds

__all__ = [
    "Account",
    "AccountRequest",
    "BuildAllocator",
    "build_reference_allocator",
    "build_rows",
    "build_single",
    "ids_of",
]

AccountRequest: TypeAlias = (
    AllocatorRequest
    | SWAAllocatorRequest
    | PureSWAAllocatorRequest
    | HiSparseAllocatorRequest
    | ShardedAllocatorRequest
    | VirtualIdsRequest
    | StateSlotsRequest
    | RequestPoolRequest
)
"""Whatever keeps accounts of slots or rows, and holds no row itself."""

Account: TypeAlias = (
    TokenAllocator
    | PageAllocator
    | SWAPairAllocator
    | PureSWAAllocator
    | DeviceSubsetAllocator
    | InterleavedAllocator
    | VirtualIds
    | StateSlots
    | ReqToToken
)
"""What the reference keeps them with."""

BuildAllocator: TypeAlias = Callable[[AllocatorRequest], SlotAllocator | Declined]
"""A platform's door: an allocator of one space, or why there is none."""


def build_reference_allocator(
    request: AccountRequest,
    /,
    kvcache: object = None,
    build_allocator: BuildAllocator | None = None,
) -> Account | Declined:
    """What keeps the accounts that are asked for; `kvcache` is the pool they are of.

    The two sides of a pair come from `build_allocator`, a platform's, and so do the slots of
    windows alone; from here without one. A side that is declined declines the pair.

    :raises ValueError: for sizes no account can have.
    """
    part = build_allocator or partial(build_single, kvcache=kvcache)
    match request:
        case AllocatorRequest():
            return build_single(request, kvcache)
        case SWAAllocatorRequest():
            return _swa_pair(request, part, kvcache)
        case PureSWAAllocatorRequest():
            return _window_alone(request, part, kvcache)
        case HiSparseAllocatorRequest():
            return _device_subset(request, part, kvcache)
        case ShardedAllocatorRequest():
            return InterleavedAllocator(
                request.size_per_rank,
                request.page_size,
                request.shard_size,
                torch.int64,
                request.device,
                kvcache,
                request.need_sort,
            )
        case VirtualIdsRequest():
            return VirtualIds(
                virtual_allocator=ids_of(request),
                physical_pages=request.size // request.page_size,
                unified_buffer=None,
                kvcache=kvcache,
            )
        case StateSlotsRequest():
            return StateSlots(request.size, request.device)
        case RequestPoolRequest():
            return build_rows(request)


def build_rows(request: RequestPoolRequest, /) -> ReqToToken:
    """A request table."""
    return ReqToToken(
        request.size,
        request.max_context_len,
        request.device,
        enable_memory_saver=request.enable_memory_saver,
        pre_alloc_size=request.pre_alloc_size,
    )


def _swa_pair(
    request: SWAAllocatorRequest, part: BuildAllocator, kvcache: object
) -> SWAPairAllocator | Declined:
    full, window = (part(_side(request, size)) for size in (request.size, request.size_swa))
    if isinstance(full, Declined):
        return Declined(f"the full side of a window pair: {full.reason}")
    if isinstance(window, Declined):
        return Declined(f"the window side of a window pair: {window.reason}")
    return SWAPairAllocator(full_attn_allocator=full, swa_attn_allocator=window, kvcache=kvcache)


def _window_alone(
    request: PureSWAAllocatorRequest, part: BuildAllocator, kvcache: object
) -> PureSWAAllocator | Declined:
    slots = part(_side(request, request.size_swa))
    if isinstance(slots, Declined):
        return Declined(f"the slots of a model of windows alone: {slots.reason}")
    sizes = request.size_swa, 1, torch.int64, request.device
    return PureSWAAllocator(*sizes, kvcache, request.need_sort, slots=slots)


def _device_subset(
    request: HiSparseAllocatorRequest, part: BuildAllocator, kvcache: object
) -> DeviceSubsetAllocator | Declined:
    logical = part(_side(request, request.size_logical, paged=True))
    if isinstance(logical, Declined):
        return Declined(f"the ids of hierarchical sparse attention: {logical.reason}")
    device = part(_side(request, request.size, paged=True))
    if isinstance(device, Declined):
        return Declined(f"the device slots of hierarchical sparse attention: {device.reason}")
    return DeviceSubsetAllocator(
        logical_attn_allocator=logical, hisparse_attn_allocator=device, kvcache=kvcache
    )


def _side(
    request: SWAAllocatorRequest | PureSWAAllocatorRequest | HiSparseAllocatorRequest,
    size: int,
    *,
    paged: bool = False,
) -> AllocatorRequest:
    return AllocatorRequest(
        kind="paged" if paged or request.page_size > 1 else "token",
        size=size,
        page_size=request.page_size,
        device=request.device,
        need_sort=request.need_sort,
        fallback=request.fallback,
    )


def ids_of(request: VirtualIdsRequest, /) -> TokenAllocator | PageAllocator:
    """Who lends virtual ids: nobody minds in what order."""
    return build_single(
        AllocatorRequest(
            kind="token" if request.page_size == 1 else "paged",
            size=request.size,
            page_size=request.page_size,
            device=request.device,
            need_sort=False,
        )
    )


def build_single(
    request: AllocatorRequest, /, kvcache: object = None
) -> TokenAllocator | PageAllocator:
    """An allocator of one space."""
    if request.kind == "token":
        return TokenAllocator(request.size, torch.int64, request.device, kvcache, request.need_sort)
    return PageAllocator(
        request.size, request.page_size, torch.int64, request.device, kvcache, request.need_sort
    )
