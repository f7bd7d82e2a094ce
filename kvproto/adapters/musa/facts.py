"""Facts of the devices, known without them and without torch."""

from __future__ import annotations

from kvproto.protocols import PlatformCapabilities

__all__ = ["DEVICE_TYPE", "MUSA"]

DEVICE_TYPE = "musa"
"""The torch device type that torch_musa registers."""

MUSA = PlatformCapabilities(
    device_type=DEVICE_TYPE,
    supports_triton=True,
    supports_graph_capture=True,
    fp8_variant="e4m3fn",
    default_page_size=64,
    head_layout="paged_nhd",
)
"""A Moore Threads device. Pages of 64 are what a public report found fastest.

Attention takes the page size from the second dimension of what it reads, which rows by page have.
"""
