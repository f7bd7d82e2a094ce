"""Pools that a platform builds together, because no leaf request describes one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from .compressed_requests import CompressedPoolRequest
from .platform import Platform
from .qsa_requests import QSAPoolRequest
from .unified_requests import UnifiedBufferRequest

if TYPE_CHECKING:
    from .allocator import SlotAllocator
    from .compressed import DSV4Compressed
    from .leaf import KVPool
    from .request_pool import RequestPool
    from .requests import Declined
    from .state_pool import StatePool

__all__ = ["SubsystemPlatform", "SubsystemPools", "SubsystemRequest"]

SubsystemRequest: TypeAlias = UnifiedBufferRequest | CompressedPoolRequest | QSAPoolRequest
"""What is built as a whole, by whoever offers its `subsystems`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsystemPools:
    """What a subsystem is made of: each part as capable as one that is built alone.

    `state` and `draft` are None where the request asks for none. A pool of compressed rows has
    doors of its own.
    """

    pool: KVPool | DSV4Compressed
    allocator: SlotAllocator
    request_pool: RequestPool
    state: StatePool | None = None
    draft: KVPool | None = None


@runtime_checkable
class SubsystemPlatform(Platform, Protocol):
    """Can it build the subsystems that its capabilities name?"""

    def build_subsystem(self, request: SubsystemRequest, /) -> SubsystemPools | Declined:
        """All parts of the subsystem, their buffers allocated and zero, every slot free."""
        ...
