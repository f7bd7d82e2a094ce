"""Acme's device as a platform of kvproto's, found through its entry point."""

from __future__ import annotations

from kvproto import AllocatorRequest, Declined, LeafRequest, PlatformCapabilities

from .pages import AcmePages
from .pool import AcmePool, build


class AcmePlatform:
    """Leaves and pages of Acme's own; single tokens are counted by whoever asks."""

    name = "acme"
    capabilities = PlatformCapabilities(
        device_type="cpu", supports_triton=False, supports_graph_capture=False, fp8_variant="none"
    )

    def build_leaf(self, request: LeafRequest, /) -> AcmePool | Declined:
        return build(request)

    def build_allocator(self, request: AllocatorRequest, /) -> AcmePages | Declined:
        if request.kind == "token":
            return Declined("Acme counts pages")
        return AcmePages(request)


def acme() -> AcmePlatform:
    """What the entry point names."""
    return AcmePlatform()
