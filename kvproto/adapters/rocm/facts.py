"""Facts of the devices, known without them and without torch."""

from __future__ import annotations

from dataclasses import replace

from kvproto.protocols import PlatformCapabilities

__all__ = ["GFX942", "GFX950"]

GFX942 = PlatformCapabilities(
    device_type="cuda",
    supports_triton=True,
    supports_graph_capture=True,
    fp8_variant="e4m3fnuz",
    default_page_size=64,
    dsa_rows=("raw",),
    index_layout="preshuffled",
)
"""MI300: fp8 without negative zero, whose bytes mean other numbers than those of e4m3fn."""

GFX950 = replace(GFX942, fp8_variant="e4m3fn")
"""MI350: the fp8 of other vendors."""
