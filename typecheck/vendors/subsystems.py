"""A vendor's platform that builds more than leaves, and what it is asked for."""

from __future__ import annotations

from kvproto.protocols import (
    AllocatorRequest,
    Declined,
    KVLeaf,
    LeafRequest,
    Platform,
    PlatformCapabilities,
    SlotAllocator,
    SubsystemPlatform,
    SubsystemPools,
    SubsystemRequest,
)


class AcmeBuffers:
    """Declines everything, each with its reason."""

    name = "acme"
    capabilities = PlatformCapabilities(
        device_type="acme",
        supports_triton=False,
        supports_graph_capture=False,
        fp8_variant="none",
        subsystems=frozenset({"unified_buffer"}),
    )

    def build_leaf(self, request: LeafRequest, /) -> KVLeaf | Declined:
        return Declined("leaves of one buffer alone")

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        return Declined("slots of one buffer alone")

    def build_subsystem(self, request: SubsystemRequest, /) -> SubsystemPools | Declined:
        return Declined(f"no device for {', '.join(request.subsystems)}")


_platform: type[Platform] = AcmeBuffers
_builder: type[SubsystemPlatform] = AcmeBuffers
