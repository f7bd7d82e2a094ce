"""The file that is given to the checkers, and what each of its lines asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from typing_extensions import get_protocol_members

__all__ = ["Probe", "Question", "write_probe"]

Asks = Literal["fits", "wanted", "given"]

_HEAD = """\
from typing import Generic, TypeVar
import kvproto.protocols
import {module}
_T = TypeVar("_T")
class _Wants(Generic[_T]):
    def __init__(self, wanted: _T) -> None: ...
    def take(self, given: _T) -> None: ...
"""

# `_Wants(a).take(b)` has the checkers infer the protocol's side and compare the class's to it.
_CLASS = "_{index}: type[{protocol}] = {cls}\n"
_MEMBER = """\
def _{index}_{member}(wanted: {protocol}, given: {cls}) -> None:
    _Wants(wanted.{member}).take(given.{member})
    reveal_type(wanted.{member})
    reveal_type(given.{member})
"""


_IN_ORDER: tuple[Asks, ...] = ("fits", "wanted", "given")


@dataclass(frozen=True, slots=True)
class Question:
    """What one line asks: does the class fit, does a member, what is its type on either side?

    `member` is None where the class as a whole is meant.
    """

    protocol: str
    member: str | None
    asks: Asks


@dataclass(frozen=True, slots=True)
class Probe:
    """The text of the file, and the question on each of its lines (counted from 1)."""

    text: str
    questions: dict[int, Question]


def write_probe(module: str, class_path: str, protocols: Sequence[type]) -> Probe:
    """Ask of `module.class_path` whether it fits each of the protocols."""
    text = _HEAD.format(module=module)
    questions: dict[int, Question] = {}
    cls = f"{module}.{class_path}"
    for index, protocol in enumerate(protocols):
        names = {"index": index, "cls": cls, "protocol": f"kvproto.protocols.{protocol.__name__}"}
        questions[_next_line(text)] = Question(protocol.__name__, None, "fits")
        text += _CLASS.format(**names)
        for member in sorted(get_protocol_members(protocol)):
            first = _next_line(text) + 1
            for line, asks in enumerate(_IN_ORDER, first):
                questions[line] = Question(protocol.__name__, member, asks)
            text += _MEMBER.format(member=member, **names)
    return Probe(text, questions)


def _next_line(text: str) -> int:
    return text.count("\n") + 1
