"""The platform: what it builds, and whether its device is here."""

from __future__ import annotations

from kvproto.protocols import Declined, Platform

__all__ = ["musa", "on_cpu"]


def musa() -> Platform | Declined:
    """The platform, where its device is."""
    return Declined("torch_musa is not installed")


def on_cpu() -> Platform | Declined:
    """The platform over host memory, for the conformance kit on a machine without the device."""
    return Declined("builds nothing yet")
