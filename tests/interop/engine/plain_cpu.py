# pyright: basic, reportMissingImports=false
"""A platform of sglang's for this CPU that leaves every pool to sglang: the runs without kvproto.

sglang without any platform wants kernels of vLLM's or of a wheel for CUDA; an out-of-tree platform
without opinions gets PyTorch's operators.
"""

from __future__ import annotations

__all__ = ["activate"]


def activate() -> str:
    """What sglang asks of an entry point: where the class is."""
    return "tests.interop.engine.plain_cpu_platform:PlainCpu"
