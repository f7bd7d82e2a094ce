"""Facts of the devices that kvproto's reference serves, known without them and without torch."""

from __future__ import annotations

from kvproto.protocols import PlatformCapabilities

__all__ = ["CPU", "CUDA"]

CPU = PlatformCapabilities(
    device_type="cpu", supports_triton=False, supports_graph_capture=False, fp8_variant="e4m3fn"
)
"""The host, as torch uses it."""

CUDA = PlatformCapabilities(
    device_type="cuda", supports_triton=True, supports_graph_capture=True, fp8_variant="e4m3fn"
)
"""An NVIDIA device."""
