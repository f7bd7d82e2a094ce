"""A platform by its name: on its device, or in host memory where that device is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from kvproto._bad_input import BadInput
from kvproto.configurator.platform_answer import wrong_platform
from kvproto.configurator.platforms import GROUP
from kvproto.protocols import Declined, Platform

from .factory import named

__all__ = ["ON_CPU", "Named", "absence", "load_platform", "platform_names"]

ON_CPU = "kvproto.on_cpu"
"""The entry point group: each names a function that gives a platform as it builds in host memory,
`-> Platform | Declined`, for the kit on a machine without the device."""


@dataclass(frozen=True, slots=True)
class Named:
    """A platform, and in one line why it is not on its device; "" where it is."""

    platform: Platform
    place: str = ""


def platform_names() -> list[str]:
    """All that `load_platform` knows: those detected, and those that host memory stands in for.

    Where the detected one has variants in host memory, they stand for it: `rocm` is several.
    """
    detected, in_memory = set(_points(GROUP)), set(_points(ON_CPU))
    several = {name for name in detected - in_memory if _variants(name, in_memory)}
    return sorted(detected - several | in_memory)


def load_platform(name: str) -> Named:
    """The platform of an entry point's name, or that `module:attribute` names.

    A name is looked for among the platforms that say whether their device is here. Where it is
    not, the platform of that name in host memory is used, or the first of its variants (`rocm`:
    `rocm-gfx942`). What a module names is a platform, or a function without arguments that gives
    one.

    :raises BadInput: when there is no such thing, or it cannot be used here.
    """
    if ":" in name:
        return Named(_of_module(name))
    detected, in_memory = _points(GROUP), _points(ON_CPU)
    if name not in detected:
        if name not in in_memory:
            raise BadInput(_unknown(name, detected, in_memory))
        place = f"no device here ({absence(name)}); pools are built in host memory"
        return Named(_given(in_memory[name]), place)
    answer = _answer(detected[name])
    if not isinstance(answer, Declined):
        return Named(answer)
    return _in_memory(name, answer.reason, in_memory)


def absence(name: str) -> str:
    """Why the device of that platform, or of which it is one variant, is not here; "" if it is.

    :raises BadInput: where its entry point fails.
    """
    detected = _points(GROUP)
    known = [point for point in detected if name == point or name.startswith(f"{point}-")]
    if not known:
        return "nothing installed looks for it"
    answer = _answer(detected[max(known, key=len)])
    if isinstance(answer, Declined):
        return answer.reason
    return "" if name in (*known, answer.name) else f"the device is {answer.name}"


def _in_memory(name: str, absent: str, points: dict[str, EntryPoint]) -> Named:
    variants = [name] if name in points else _variants(name, points)
    if not variants:
        raise BadInput(
            f"platform '{name}' has no device here ({absent}), and the entry point group "
            f"'{ON_CPU}' names no such platform in host memory"
        )
    chosen, *others = variants
    which = f", as {chosen}'s" if chosen != name else ""
    which += f" (or name {', '.join(others)})" if others else ""
    answer = _answer(points[chosen])
    if isinstance(answer, Declined):
        raise BadInput(
            f"platform '{name}' has no device here ({absent}), and in host memory: {answer.reason}"
        )
    return Named(answer, f"no device here ({absent}); pools are built in host memory{which}")


def _variants(name: str, points: Iterable[str]) -> list[str]:
    return sorted(point for point in points if point.startswith(f"{name}-"))


def _points(group: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


def _unknown(name: str, detected: Iterable[str], in_memory: Iterable[str]) -> str:
    return (
        f"no platform '{name}'; the entry point group '{GROUP}' has "
        f"{', '.join(sorted(detected)) or 'none'}, and '{ON_CPU}' {', '.join(sorted(in_memory))}"
    )


def _answer(point: EntryPoint) -> Platform | Declined:
    where = f"entry point '{point.name} = {point.value}' of the group '{point.group}'"
    try:
        answer: object = point.load()()
    except Exception as error:
        raise BadInput(f"{where} failed: {type(error).__name__}: {error}") from error
    if not isinstance(answer, Declined) and (wrong := wrong_platform(answer)):
        raise BadInput(f"{where} {wrong}")
    return cast("Platform | Declined", answer)


def _given(point: EntryPoint) -> Platform:
    answer = _answer(point)
    if isinstance(answer, Declined):
        raise BadInput(f"platform '{point.name}' in host memory: {answer.reason}")
    return answer


def _of_module(name: str) -> Platform:
    found: Any = named(name, "module:platform, for example acme.platform:acme")
    if callable(found) and not isinstance(found, Platform):
        try:
            found = found()
        except Exception as error:
            raise BadInput(f"{name}() failed: {type(error).__name__}: {error}") from error
    if isinstance(found, Declined):
        raise BadInput(f"{name}: cannot be used here: {found.reason}")
    if wrong := wrong_platform(found):
        raise BadInput(f"{name} {wrong}")
    return cast("Platform", found)
