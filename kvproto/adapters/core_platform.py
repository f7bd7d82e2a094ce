"""A platform whose parts are the core's: it refuses what its kernels do not read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    KVLeaf,
    LeafRequest,
    PlatformCapabilities,
    SlotAllocator,
)
from kvproto.reference import ReferencePlatform

__all__ = ["CorePlatform"]


@dataclass(frozen=True, slots=True)
class CorePlatform(ABC):
    """Leaves and allocators of `core`, which knows every layout as data."""

    core: ReferencePlatform

    @property
    def name(self) -> str:
        """The core's under these facts, for example `rocm-gfx942`."""
        return self.core.name

    @property
    def capabilities(self) -> PlatformCapabilities:
        """Those of every device that the platform is of."""
        return self.core.capabilities

    @abstractmethod
    def _refusal(self, request: LeafRequest) -> str:
        """Why kernels of the devices would not read what is asked for; "" where they do."""

    def build_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        """A leaf whose bytes kernels of the device read as they are meant; others are declined."""
        if why := self._refusal(request):
            return Declined(why)
        return self.core.build_leaf(request)

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        """As the core's; on the device slots are lent and taken back by Triton kernels."""
        return self.core.build_allocator(request)
