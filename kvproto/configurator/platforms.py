"""Which platform to build on: in-tree and plugins alike, by their entry points."""

from __future__ import annotations

import os
from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from kvproto.protocols import Declined, Platform

from .build_error import BuildError
from .platform_answer import wrong_platform

__all__ = ["GROUP", "VARIABLE", "find_platform"]

GROUP = "kvproto.platforms"
"""The entry point group: each names a function without arguments, `-> Platform | Declined`."""

VARIABLE = "KVPROTO_PLATFORM"
"""The environment variable that names the entry point to use."""

_IN_TREE = ("cuda", "rocm", "npu", "musa", "cpu")
"""Those that kvproto brings, the preferred first."""


def find_platform(name: str | None = None) -> Platform:
    """The platform of that name, or of `KVPROTO_PLATFORM`, or the only plugin that has a device.

    Without a plugin it is the first in-tree one that has a device.

    :raises BuildError: for a name that is none, a platform without its device, and for several
        plugins of which nobody chose one.
    """
    found = {point.name: point for point in _points()}
    chosen = name or os.environ.get(VARIABLE)
    if chosen is not None:
        return _named(chosen, found)
    plugins = {n: _answer(point) for n, point in found.items() if n not in _IN_TREE}
    usable = {n: answer for n, answer in plugins.items() if not isinstance(answer, Declined)}
    if len(usable) > 1:
        names = ", ".join(sorted(usable))
        raise BuildError(f"platforms {names} all have their device: choose one with {VARIABLE}")
    for platform in usable.values():
        return platform
    return _in_tree(found)


def _points() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def _named(name: str, found: dict[str, EntryPoint]) -> Platform:
    if name not in found:
        raise BuildError(
            f"no platform '{name}' in the entry point group '{GROUP}'; there are "
            f"{', '.join(sorted(found)) or 'none'}"
        )
    answer = _answer(found[name])
    if isinstance(answer, Declined):
        raise BuildError(f"platform '{name}' cannot be used here: {answer.reason}")
    return answer


def _in_tree(found: dict[str, EntryPoint]) -> Platform:
    for name in _IN_TREE:
        answer = _answer(found[name]) if name in found else Declined("not installed")
        if not isinstance(answer, Declined):
            return answer
    raise BuildError(f"no platform has its device, and none is named by {VARIABLE}")


def _answer(point: EntryPoint) -> Platform | Declined:
    where = f"entry point '{point.name} = {point.value}' of the group '{GROUP}'"
    try:
        answer: object = point.load()()
    except Exception as error:
        raise BuildError(f"{where} failed: {type(error).__name__}: {error}") from error
    if not isinstance(answer, Declined) and (wrong := wrong_platform(answer)):
        raise BuildError(f"{where} {wrong}")
    return cast("Platform | Declined", answer)
