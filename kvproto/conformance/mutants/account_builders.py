"""How faulty accounts are built: on which list of free pages, and of which halves."""

# pyright: reportIncompatibleMethodOverride=false, reportPrivateUsage=false
# These lists are wrong on purpose.

from __future__ import annotations

from inspect import signature
from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    RequestPoolRequest,
    StateSlotsRequest,
    SWAAllocatorRequest,
)
from kvproto.reference.device_pages import DevicePages
from kvproto.reference.paged_allocator import PageAllocator
from kvproto.reference.token_allocator import TokenAllocator


class Trusting(DevicePages):
    """A list of free pages that believes whoever frees."""

    def clear(self) -> None:
        self._listed, self._held = list(range(1, self.capacity + 1)), list[int]()
        self._in_group = False

    def available(self) -> int:
        return len(self._listed)

    def take(self, n: int, *, expected: int = 0) -> Tensor | None:
        if n > len(self._listed):
            return None
        taken, self._listed = self._listed[:n], self._listed[n:]
        return torch.tensor(taken, dtype=torch.int64)

    def release(self, pages: Tensor, *, as_set: bool = False) -> None:
        (self._held if self._in_group else self._listed).extend(int(page) for page in pages)

    def begin_group(self) -> None:
        self._in_group = True

    def end_group(self) -> None:
        self._listed += self._held
        self._held, self._in_group = [], False


class ForgetsInGroups(DevicePages):
    """A list that forgets who owns what while a group is open."""

    def _claim(self, pages: Tensor) -> Tensor:
        claimed = super()._claim(pages)
        return claimed if self._group is None else pages.clamp(0, self.capacity + 1)


def alone(cls: Any, request: AllocatorRequest) -> Any:
    """An allocator of one space, on the free list its class names."""
    kind = "paged" if "page_size" in signature(cls).parameters else "token"
    if request.kind != kind:
        return Declined(f"{cls.__name__} is a {kind} allocator")
    sizes: dict[str, Any] = {"size": request.size}
    if kind == "paged":
        sizes["page_size"] = request.page_size
    made = cls(
        **sizes,
        dtype=torch.int64,
        device=request.device,
        kvcache=None,
        need_sort=request.need_sort,
    )
    return _on(made, getattr(cls, "free_list", DevicePages))


def _on(allocator: Any, free_list: type[DevicePages]) -> Any:
    old = allocator._free
    allocator._free = free_list(
        old.capacity,
        allocator.device,
        allocator.page_size,
        need_sort=old.need_sort,
        newest_first=old.newest_first,
    )
    return allocator


def paired(cls: Any, request: SWAAllocatorRequest) -> Any:
    """A pair over reference allocators, the window one on the free list that its class names."""
    kind = TokenAllocator if request.page_size == 1 else PageAllocator
    full, window = (alone(kind, _side(request, size)) for size in (request.size, request.size_swa))
    window = _on(window, getattr(cls, "free_list", DevicePages))
    return cls(full_attn_allocator=full, swa_attn_allocator=window, kvcache=None)


def _side(request: SWAAllocatorRequest, size: int) -> AllocatorRequest:
    return AllocatorRequest(
        kind="token" if request.page_size == 1 else "paged",
        size=size,
        page_size=request.page_size,
        device=request.device,
        need_sort=request.need_sort,
    )


def states(cls: Any, request: StateSlotsRequest) -> Any:
    """An allocator of state slots."""
    return cls(request.size, request.device)


def rows(cls: Any, request: RequestPoolRequest) -> Any:
    """A table of rows."""
    sizes = request.size, request.max_context_len, request.device
    saver = request.enable_memory_saver
    return cls(*sizes, enable_memory_saver=saver, pre_alloc_size=request.pre_alloc_size)
