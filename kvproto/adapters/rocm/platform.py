"""The platform: what it builds, and whether its device is here."""

from __future__ import annotations

from kvproto.protocols import Declined, Platform

__all__ = ["gfx942_on_cpu", "gfx950_on_cpu", "rocm"]


def rocm() -> Platform | Declined:
    """The platform, where its device is."""
    return Declined("this torch was not built for ROCm")


def gfx942_on_cpu() -> Platform | Declined:
    """The platform over host memory, for the conformance kit on a machine without the device."""
    return Declined("builds nothing yet")


def gfx950_on_cpu() -> Platform | Declined:
    """The platform over host memory, for the conformance kit on a machine without the device."""
    return Declined("builds nothing yet")
