"""One place where code asks who made a pool, or tries what it can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from .answers import Answer, Verdict, verdict_of

__all__ = ["DUCK_KINDS", "EXACT_KINDS", "Gate", "GateKind"]

GateKind: TypeAlias = Literal[
    "isinstance",
    "issubclass",
    "type-is",
    "class-is",
    "class-name",
    "dispatch",
    "match",
    "method-is",
    "hasattr",
    "getattr",
    "try-except",
]
"""How it asks. `type-is`: the type of an object compared with a class; `class-is`: a class object
compared with one; `class-name`: a class's name compared with a string; `dispatch`: a table keyed
by class; `match`: a class pattern; `method-is`: a method compared with that of a class."""

EXACT_KINDS: frozenset[GateKind] = frozenset({"type-is"})
"""These ask for the very class: a subclass gets another answer."""

DUCK_KINDS: frozenset[GateKind] = frozenset({"hasattr", "getattr", "try-except"})
"""These name no class: they try a member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """`classes` for those that name any, else `attribute`: the member, or `<name>` where the
    member's name is computed. `file` is relative to the tree that was scanned.
    """

    file: str
    line: int
    column: int
    kind: GateKind
    scope: str
    operand: str
    classes: tuple[str, ...]
    attribute: str | None
    asserted: bool
    """Whether it is (part of) the test of an `assert`."""
    typing_only: bool
    """Whether it stands under `if TYPE_CHECKING`, and never runs."""
    hot: bool
    asks: str
    answer: Answer
    why: str
    """Why this place has another answer than its classes have elsewhere; else empty."""

    @property
    def verdict(self) -> Verdict:
        """How far a rewrite can go without anybody."""
        return verdict_of(self.answer)

    @property
    def subject(self) -> str:
        """The classes, or the member in brackets."""
        return " | ".join(self.classes) or f"({self.attribute})"
