"""Facts of the devices, known without them and without torch."""

from __future__ import annotations

from kvproto.protocols import PlatformCapabilities

__all__ = ["NPU"]

NPU = PlatformCapabilities(
    device_type="npu",
    supports_triton=False,
    supports_graph_capture=True,
    fp8_variant="e4m3fn",
    registration_alignment=2 << 20,
)
"""An Ascend device: RDMA registration wants start and length aligned to 2 MiB."""
