"""A platform for plugins that name pool classes, one per kind, instead of building pools."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, cast

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    DSALeafRequest,
    KVLeaf,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    PlatformCapabilities,
    SlotAllocator,
    SparseIndexLeafRequest,
)

__all__ = ["ClassHookPlatform"]

_KIND_HOOK = "get_kv_pool_cls"
_ALLOCATOR_HOOK = "get_paged_allocator_cls"


class ClassHookPlatform:
    """Builds leaves from the classes that a plugin's hooks return, with the request's keywords.

    Served are `get_kv_pool_cls(kind=...)`, `get_mha_kv_pool_cls()`, `get_mla_kv_pool_cls()`,
    `get_dsa_kv_pool_cls()` and `get_paged_allocator_cls()`; a hook that is missing or returns
    None declines. Deprecated: a plugin that builds leaves itself can look at the request, and
    can decline with a reason.
    """

    def __init__(self, name: str, hooks: object, capabilities: PlatformCapabilities) -> None:
        self.name, self.capabilities = name, capabilities
        self._hooks = hooks
        warnings.warn(
            f"platform '{name}' names pool classes through {type(hooks).__name__}: implement "
            "build_leaf(request) instead",
            DeprecationWarning,
            stacklevel=2,
        )

    def build_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        """An instance of the class for the request's kind, or why there is none."""
        kind = _kind(request)
        if kind is None:
            return Declined(f"class hooks know no {type(request).__name__}")
        if isinstance(request, DSALeafRequest) and request.dcp_size > 1:
            return Declined(
                f"class hooks know no index keys of {request.dcp_size} ranks: their classes take "
                "no dcp_size"
            )
        found = self._class(_KIND_HOOK, kind=kind) or self._class(f"get_{kind}_kv_pool_cls")
        if found is None:
            return Declined(f"{type(self._hooks).__name__} names no pool class of kind '{kind}'")
        return cast("KVLeaf", found(**request.keywords()))

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        """An instance of the paged allocator's class, or why there is none."""
        found = self._class(_ALLOCATOR_HOOK)
        if found is None or request.kind != "paged":
            return Declined(f"{type(self._hooks).__name__} names no {request.kind} allocator class")
        import torch

        made = found(
            request.size,
            page_size=request.page_size,
            dtype=torch.int64,
            device=request.device,
            kvcache=None,
            need_sort=request.need_sort,
        )
        return cast("SlotAllocator", made)

    def _class(self, hook: str, **named: str) -> Callable[..., Any] | None:
        if not hasattr(self._hooks, hook):
            return None
        answer: Callable[..., Any] | None = getattr(self._hooks, hook)(**named)
        return answer


def _kind(request: LeafRequest) -> str | None:
    match request:
        case MHALeafRequest():
            return "mha"
        case MLALeafRequest():
            return "mla"
        case DSALeafRequest():
            return "dsa"
        case SparseIndexLeafRequest():
            return None
