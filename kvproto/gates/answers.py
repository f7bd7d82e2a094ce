"""What can stand where a class or a member was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "AllOf",
    "Answer",
    "AnyOf",
    "ByClass",
    "Member",
    "Near",
    "Person",
    "Verdict",
    "verdict_of",
    "words",
]

Verdict = Literal["exact", "needs-trait", "needs-person"]
"""`exact`: a capability says the same; `needs-trait`: pools must declare a value; or neither does.
"""


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one of some capabilities, none of some others, and declared values."""

    capabilities: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    traits: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Field of `PoolTraits` -> the values that will do."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of several is enough."""

    options: tuple[AllOf, ...]


@dataclass(frozen=True, slots=True)
class Member:
    """The member is one of a capability's: ask for that, then read it."""

    capability: str


@dataclass(frozen=True, slots=True)
class ByClass:
    """Of the classes of a table each stays, or the capability that it stands for will do."""

    capabilities: tuple[tuple[str, str], ...]
    """Class -> capability."""


@dataclass(frozen=True, slots=True)
class Near:
    """What the place means, which not every pool answers as it answers the member.

    `why` says which pools do not: a person has to see whether they get there.
    """

    meant: AllOf | AnyOf | Member
    why: str


@dataclass(frozen=True, slots=True)
class Person:
    """Nothing answers it as it stands; `why` is what a person has to decide."""

    why: str


Answer: TypeAlias = AllOf | AnyOf | ByClass | Member | Near | Person


def verdict_of(answer: Answer) -> Verdict:
    """How far a rewrite can go without anybody."""
    match answer:
        case Person() | Near():
            return "needs-person"
        case Member() | ByClass():
            return "exact"
        case AllOf(traits=traits):
            return "needs-trait" if traits else "exact"
        case AnyOf(options=options):
            traits_asked = any(option.traits for option in options)
            return "needs-trait" if traits_asked else "exact"


def words(answer: Answer) -> str:
    """One line for a report: `SWAComposite`, `kind = mla or dsa`, `a person: ...`."""
    match answer:
        case Person(why=why):
            return f"a person: {why}"
        case Near(meant=meant, why=why):
            return f"a person: {words(meant)}, but {why}"
        case Member(capability=capability):
            return f"a member of {capability}"
        case ByClass(capabilities=pairs):
            return "of a table: " + ", ".join(f"{name} or {other}" for name, other in pairs)
        case AllOf():
            return _all_words(answer)
        case AnyOf(options=options):
            return ", or ".join(_all_words(option) for option in options)


def _all_words(answer: AllOf) -> str:
    parts = [*answer.capabilities, *(f"not {name}" for name in answer.without)]
    parts += [f"{field} = {' or '.join(values)}" for field, values in answer.traits]
    return " and ".join(parts)
