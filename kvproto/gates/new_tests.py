"""What an answer looks like as an expression on a pool."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .answers import AllOf, Answer, AnyOf, ByClass, Member, Near, Person

__all__ = ["DECLARES", "NewTest", "new_test"]

_WIDTH = 88
_ARGUMENT = re.compile(r", (?=\w+=)")

DECLARES = "declares"
"""The function that asks for declared values."""


@dataclass(frozen=True, slots=True)
class NewTest:
    """`parts` are joined by `joint`; one part alone is a call, and needs no brackets."""

    parts: tuple[str, ...]
    joint: str
    names: frozenset[str]
    """What has to be imported."""
    classes: str | None
    """The second argument, where it is one `isinstance`."""

    @property
    def repeats(self) -> bool:
        """Whether the pool is evaluated more than once."""
        return len(self.parts) != 1 or " and " in self.parts[0]

    def text(self, *, indent: str, room: int, newline: str) -> str:
        """The expression; over several lines where it does not fit into `room` characters."""
        first, *more = self.parts
        if not more:
            return _folded(first, indent, room, newline)
        line = "(" + f" {self.joint} ".join(self.parts) + ")"
        if len(line) <= room:
            return line
        inner = f"{indent}    "
        # What is left of a line after its indent and the joint.
        left = _WIDTH - len(inner) - len(self.joint) - 1
        parts = [_folded(part, inner, left, newline) for part in self.parts]
        deep = f"{newline}{inner}"
        return f"({deep}" + f"{deep}{self.joint} ".join(parts) + f"{newline}{indent})"


def _folded(part: str, indent: str, room: int, newline: str) -> str:
    """A call of `declares` that does not fit, with an argument on each line."""
    if len(part) <= room or not part.startswith(f"{DECLARES}("):
        return part
    arguments = _ARGUMENT.split(part[len(DECLARES) + 1 : -1])
    listed = "".join(f"{newline}{indent}    {argument}," for argument in arguments)
    return f"{DECLARES}({listed}{newline}{indent})"


def new_test(answer: Answer, pool: str) -> NewTest | None:
    """The test of an expression that is a pool; None where that is not what changes."""
    match answer:
        case Person() | Near() | Member() | ByClass():
            return None
        case AllOf():
            classes = answer.capabilities[0] if _is_one_capability(answer) else None
            return NewTest(_all_parts(answer, pool), "and", _names([answer]), classes)
        case AnyOf(options=options):
            return _any_test(options, pool)


def _any_test(options: tuple[AllOf, ...], pool: str) -> NewTest:
    plain = [option for option in options if _is_one_capability(option)]
    together = tuple(option.capabilities[0] for option in plain)
    parts = [_isinstance(pool, together)] if plain else []
    for option in options:
        if option not in plain:
            whole = _all_parts(option, pool)
            parts.append(whole[0] if len(whole) == 1 else f"({' and '.join(whole)})")
    classes = _classes(together) if len(plain) == len(options) else None
    return NewTest(tuple(parts), "or", _names(options), classes)


def _is_one_capability(option: AllOf) -> bool:
    return len(option.capabilities) == 1 and not option.without and not option.traits


def _all_parts(test: AllOf, pool: str) -> tuple[str, ...]:
    parts = [_isinstance(pool, (name,)) for name in test.capabilities]
    parts += [f"not {_isinstance(pool, (name,))}" for name in test.without]
    if test.traits:
        wanted = ", ".join(f"{field}={_values(values)}" for field, values in test.traits)
        parts.append(f"{DECLARES}({pool}, {wanted})")
    return tuple(parts)


def _isinstance(pool: str, names: tuple[str, ...]) -> str:
    return f"isinstance({pool}, {_classes(names)})"


def _classes(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _values(values: tuple[str, ...]) -> str:
    quoted = [f'"{value}"' for value in values]
    return quoted[0] if len(quoted) == 1 else f"({', '.join(quoted)})"


def _names(options: tuple[AllOf, ...] | list[AllOf]) -> frozenset[str]:
    capabilities = {n for option in options for n in (*option.capabilities, *option.without)}
    asked = {DECLARES} if any(option.traits for option in options) else set[str]()
    return frozenset(capabilities | asked)
