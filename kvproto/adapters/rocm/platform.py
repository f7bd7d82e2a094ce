"""The platform: what it builds, and whether its device is here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from kvproto.protocols import Declined, LeafRequest, PlatformCapabilities
from kvproto.reference import ReferencePlatform

from ..core_platform import CorePlatform
from .facts import GFX942, GFX950
from .refusals import refusal

__all__ = ["RocmPlatform", "gfx942_on_cpu", "gfx950_on_cpu", "rocm"]


@dataclass(frozen=True, slots=True)
class RocmPlatform(CorePlatform):
    """Leaves and allocators of the core, for what kernels of one architecture read.

    The core knows both variants of fp8; what is refused is what no kernel of the device would
    understand.
    """

    def _refusal(self, request: LeafRequest) -> str:
        return refusal(request, self.capabilities.fp8_variant)


def rocm() -> RocmPlatform | Declined:
    """The platform of the devices that this torch sees, which are all of one architecture."""
    if torch.version.hip is None:
        return Declined("this torch was not built for ROCm")
    if not torch.cuda.is_available():
        return Declined("torch sees no ROCm device")
    return _of_architectures(_architectures())


def gfx942_on_cpu() -> RocmPlatform:
    """What is built on an MI300, over host memory: for the conformance kit."""
    return _platform("gfx942", GFX942)


def gfx950_on_cpu() -> RocmPlatform:
    """What is built on an MI350, over host memory: for the conformance kit."""
    return _platform("gfx950", GFX950)


def _architectures() -> set[str]:
    """Of every device: `gfx942` of what the driver calls `gfx942:sramecc+:xnack-`."""
    cuda: Any = torch.cuda
    named = (str(cuda.get_device_properties(i).gcnArchName) for i in range(cuda.device_count()))
    return {name.partition(":")[0] for name in named}


def _of_architectures(found: Iterable[str]) -> RocmPlatform | Declined:
    first, *others = sorted(found)
    if others:
        names = ", ".join((first, *others))
        return Declined(
            f"the devices are of several architectures ({names}), which need not read the same "
            "fp8: leave those of one visible, with HIP_VISIBLE_DEVICES"
        )
    if first.startswith("gfx94"):
        return _platform(first, GFX942)
    if first == "gfx950":
        return _platform(first, GFX950)
    return Declined(
        f"nothing is known of the fp8 of architecture '{first}'; served are gfx94x and gfx950"
    )


def _platform(architecture: str, facts: PlatformCapabilities) -> RocmPlatform:
    return RocmPlatform(ReferencePlatform(f"rocm-{architecture}", facts))
