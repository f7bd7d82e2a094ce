"""The platform of Moore Threads devices: its leaves are the core's, of `pools.py`."""

from __future__ import annotations

from kvproto.adapters.musa.platform import MusaPlatform, on_cpu
from kvproto.protocols import Platform

platform: type[Platform] = MusaPlatform

in_host_memory: Platform = on_cpu()
