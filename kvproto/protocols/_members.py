"""What a protocol asks for: its members, read from its own declarations."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import Literal

from typing_extensions import get_annotations, get_protocol_members

from ._signature import without_self

__all__ = ["Member", "declared_annotations", "is_protocol", "members_of"]

MemberKind = Literal["method", "data"]


@dataclass(frozen=True, slots=True)
class Member:
    """One member a protocol names.

    `signature` is what callers of a method pass (without self); None for data.
    `nullable` tells whether None is a legal value of a data member.
    """

    name: str
    kind: MemberKind
    signature: inspect.Signature | None
    nullable: bool


def is_protocol(cls: type) -> bool:
    """Is this class itself a protocol (and not a class that implements one)?"""
    return bool(cls.__dict__.get("_is_protocol", False))


def declared_annotations(cls: type) -> dict[str, str]:
    """The class's own annotations as text, never evaluated: names may exist for checkers only."""
    from typing_extensions import Format

    return {name: str(text) for name, text in get_annotations(cls, format=Format.STRING).items()}


def members_of(protocol: type) -> tuple[Member, ...]:
    """The members of a protocol and of the protocols it extends, in alphabetical order."""
    return tuple(_member(protocol, name) for name in sorted(get_protocol_members(protocol)))


def _member(protocol: type, name: str) -> Member:
    owner = next(c for c in protocol.__mro__ if name in c.__dict__ or name in _annotated(c))
    value = owner.__dict__.get(name)
    if isinstance(value, property):
        text = str(getattr(value.fget, "__annotations__", {}).get("return", ""))
        return Member(name, "data", None, _allows_none(text))
    if callable(value):
        return Member(name, "method", without_self(value), nullable=False)
    return Member(name, "data", None, _allows_none(_annotated(owner).get(name, "")))


def _annotated(cls: type) -> dict[str, str]:
    return declared_annotations(cls) if is_protocol(cls) else {}


def _allows_none(annotation: str) -> bool:
    """Is None a value of this annotation? What stands in brackets is another type's business."""
    if annotation.startswith("Optional["):
        return True
    outer = annotation
    while (stripped := re.sub(r"\[[^][]*\]", "", outer)) != outer:
        outer = stripped
    return any(part.strip() in ("None", "object", "Any") for part in outer.split("|"))
