"""Pages in host memory: a tier behind the pages of a device pool."""

from __future__ import annotations

from .capacity import HostCapacity
from .host_pool import DevicePool, HostPool
from .host_tier import HostTier, StagePool, TierPages
from .layer_loads import LayerLoads, LoadFailed

__all__ = [
    "DevicePool",
    "HostCapacity",
    "HostPool",
    "HostTier",
    "LayerLoads",
    "LoadFailed",
    "StagePool",
    "TierPages",
]
