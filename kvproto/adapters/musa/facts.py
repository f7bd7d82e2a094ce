"""Facts of the devices, known without them and without torch."""

from __future__ import annotations

from kvproto.protocols import PlatformCapabilities

__all__ = ["MUSA"]

MUSA = PlatformCapabilities(
    device_type="musa",
    supports_triton=True,
    supports_graph_capture=True,
    fp8_variant="e4m3fn",
    default_page_size=64,
)
"""A Moore Threads device."""
