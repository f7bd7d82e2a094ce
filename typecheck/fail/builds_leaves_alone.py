"""A platform that builds leaves and allocators is asked for no byte buffer."""

from __future__ import annotations

from kvproto.protocols import SubsystemPlatform
from kvproto.reference import ReferencePlatform

_: type[SubsystemPlatform] = ReferencePlatform  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
