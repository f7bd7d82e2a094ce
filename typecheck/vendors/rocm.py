"""The platform of AMD Instinct devices: its leaves are the core's, of `pools.py`."""

from __future__ import annotations

from kvproto.adapters.rocm.platform import RocmPlatform, gfx942_on_cpu, gfx950_on_cpu
from kvproto.protocols import Platform

platform: type[Platform] = RocmPlatform

of_gfx942: Platform = gfx942_on_cpu()
of_gfx950: Platform = gfx950_on_cpu()
