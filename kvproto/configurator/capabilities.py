"""Facts of a platform for plans, also where its device is not."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import entry_points

from kvproto.protocols import PlatformCapabilities

from .build_error import BuildError
from .platforms import find_platform

__all__ = ["CAPABILITIES", "find_capabilities"]

CAPABILITIES = "kvproto.capabilities"
"""The entry point group: each names a `PlatformCapabilities`, which needs no device."""


def find_capabilities(name: str) -> PlatformCapabilities:
    """What a platform of that name can do; where only the platform itself knows, it is asked.

    :raises BuildError: for a name in neither group, for an entry point that names something else,
        and for a platform that states nothing and is without its device.
    """
    stated = {point.name: point for point in entry_points(group=CAPABILITIES)}
    if name not in stated:
        return _asked(name, stated)
    point = stated[name]
    where = f"entry point '{name} = {point.value}' of the group '{CAPABILITIES}'"
    try:
        facts: object = point.load()
    except Exception as error:
        raise BuildError(f"{where} failed: {type(error).__name__}: {error}") from error
    if not isinstance(facts, PlatformCapabilities):
        raise BuildError(f"{where} is {type(facts).__name__}, which is no PlatformCapabilities")
    return facts


def _asked(name: str, stated: Iterable[str]) -> PlatformCapabilities:
    try:
        return find_platform(name).capabilities
    except BuildError as error:
        known = ", ".join(sorted(stated)) or "none"
        raise BuildError(f"{error}; without a device plans are made for {known}") from error
