"""Pages in host memory: a tier behind the pages of a device pool."""

from __future__ import annotations

from .capacity import HostCapacity
from .host_pool import DevicePool, HostPool

__all__ = ["DevicePool", "HostCapacity", "HostPool"]
