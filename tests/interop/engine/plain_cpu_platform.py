# pyright: basic, reportMissingImports=false
"""The class, imported by sglang once it has chosen it."""

from __future__ import annotations

from sglang.srt.platforms.cpu import CpuSRTPlatform
from sglang.srt.platforms.device_mixin import PlatformEnum
from sglang.srt.platforms.interface import PlatformCapabilities

__all__ = ["PlainCpu"]


class PlainCpu(CpuSRTPlatform):  # type: ignore[misc]  # sglang has no types for mypy
    """PyTorch on the CPU, and sglang's own pools."""

    _enum = PlatformEnum.OOT
    capabilities = PlatformCapabilities()

    def get_default_attention_backend(self) -> str:
        """The one that is PyTorch."""
        return "torch_native"
