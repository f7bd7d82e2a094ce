"""What is known of Acme's device without one; loads no torch."""

from __future__ import annotations

from kvproto.protocols import PlatformCapabilities

__all__ = ["ACME"]

ACME = PlatformCapabilities(
    device_type="cpu",  # Acme's accelerator is the host's processor, so that every reader has one
    supports_triton=False,
    supports_graph_capture=False,
    fp8_variant="none",
)
