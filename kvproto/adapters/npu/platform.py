"""The platform: what it builds, and whether its device is here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from kvproto.kernels import follow_platform
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
from kvproto.reference.build_allocator import build_single

from ..vendor_packages import UNUSABLE, first_line, imported
from .build import build_leaf
from .facts import DEVICE_TYPE, NPU

__all__ = ["NPUPlatform", "build_on_cpu", "npu", "on_cpu"]


@dataclass(frozen=True, slots=True)
class NPUPlatform:
    """Leaves in planes, and allocators in torch operations: the devices have no Triton."""

    name: str = "npu"
    capabilities: PlatformCapabilities = NPU

    def build_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        """As `build.build_leaf`."""
        follow_platform(DEVICE_TYPE, self.capabilities.supports_triton)
        return build_leaf(request)

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        """By token or by page; slots it lends are int64, whatever the page size."""
        follow_platform(DEVICE_TYPE, self.capabilities.supports_triton)
        return build_single(request)


def npu() -> NPUPlatform | Declined:
    """The platform, where torch_npu is installed and sees a device."""
    if find_spec("torch_npu") is None:
        return Declined("torch_npu is not installed")
    torch_npu: Any = imported("torch_npu")
    if isinstance(torch_npu, Declined):
        return torch_npu
    try:
        here = torch_npu.npu.is_available()
    except UNUSABLE as error:
        said = first_line(error)
        return Declined(f"torch_npu cannot tell whether there is an Ascend device: {said}")
    if not here:
        return Declined("torch_npu sees no Ascend device")
    return NPUPlatform()


def on_cpu() -> NPUPlatform:
    """What `npu` builds, over host memory: for the conformance kit on a machine without one."""
    return NPUPlatform()


def build_on_cpu(request: object, /) -> KVLeaf | SlotAllocator | Declined:
    """`on_cpu` as a factory of the conformance kit: `kvproto check module:build_on_cpu`."""
    match request:
        case AllocatorRequest():
            return on_cpu().build_allocator(request)
        case MHALeafRequest() | MLALeafRequest() | DSALeafRequest() | SparseIndexLeafRequest():
            return on_cpu().build_leaf(request)
        case _:
            return Declined(f"{type(request).__name__} is no platform's to build")
