"""The devices that the reference serves itself, through the same door as a plugin's."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kvproto.configurator import CPU, CUDA
from kvproto.kernels import follow_platform
from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    KVLeaf,
    LeafRequest,
    PlatformCapabilities,
    SlotAllocator,
)

from .build import build_reference_leaf
from .build_allocator import build_reference_allocator

__all__ = ["ReferencePlatform", "cpu", "cuda", "cuda_on_cpu"]


@dataclass(frozen=True, slots=True)
class ReferencePlatform:
    """Reference leaves and allocators on one type of device."""

    name: str
    capabilities: PlatformCapabilities

    def build_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        """As `build_reference_leaf`; what it stores with follows `capabilities.supports_triton`."""
        self.follow()
        return build_reference_leaf(request)

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        """As `build_reference_allocator`."""
        self.follow()
        made = build_reference_allocator(request)
        if isinstance(made, Declined | SlotAllocator):
            return made
        return Declined(f"{type(made).__name__} lends no slots")

    def follow(self) -> None:
        """Have kernels on this type of device be Triton's or torch's, as the capabilities say."""
        follow_platform(self.capabilities.device_type, self.capabilities.supports_triton)


def cpu() -> ReferencePlatform:
    """Every machine has one."""
    return ReferencePlatform("cpu", CPU)


def cuda() -> ReferencePlatform | Declined:
    """NVIDIA devices, where this torch was built for them and sees one."""
    if torch.version.cuda is None:
        return Declined("this torch was not built for CUDA")
    if not torch.cuda.is_available():
        return Declined("torch sees no CUDA device")
    return ReferencePlatform("cuda", CUDA)


def cuda_on_cpu() -> ReferencePlatform:
    """What `cuda` builds, over host memory: for the conformance kit on a machine without one."""
    return ReferencePlatform("cuda", CUDA)
