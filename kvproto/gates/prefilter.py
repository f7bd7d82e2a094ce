"""Tells by their text which files cannot hold a gate: parsing is what a scan's time goes to."""

from __future__ import annotations

import re

from .profile import Profile

__all__ = ["Prefilter"]

_PROBE = re.compile(rb"\b(?:has|get)attr\s*\(")
_TELLING = re.compile(rb"[\[\](){},#\"']")
_WORD = re.compile(rb"\w+")


class Prefilter:
    """Errs on the side of parsing, never on the other."""

    def __init__(self, profile: Profile) -> None:
        self._classes = tuple(name.encode() for name in profile.classes)
        self._operands = frozenset(
            name.encode() for name in (*profile.operands, *(n for _, n in profile.pools_of_files))
        )
        self._members = tuple(f".{name}".encode() for name in profile.attributes)

    def may_hold_gates(self, text: bytes) -> bool:
        """Whether a file names a class of the profile, probes an operand, or catches a missing
        member.
        """
        if self.may_hold_class_gates(text):
            return True
        if any(self._on_an_operand(text, probe.end()) for probe in _PROBE.finditer(text)):
            return True
        return b"AttributeError" in text and any(name in text for name in self._members)

    def may_hold_class_gates(self, text: bytes) -> bool:
        """Whether a file names a class of the profile."""
        return any(name in text for name in self._classes)

    def _on_an_operand(self, text: bytes, start: int) -> bool:
        asked = _first_argument(text, start)
        return asked is None or not self._operands.isdisjoint(_WORD.findall(asked))


def _first_argument(text: bytes, start: int) -> bytes | None:
    """The text up to the comma after a first argument; None where text alone does not tell."""
    depth = 0
    for mark in _TELLING.finditer(text, start):
        match mark.group():
            case b"[" | b"(" | b"{":
                depth += 1
            case b"]" | b")" | b"}":
                depth -= 1
                if depth < 0:
                    return text[start : mark.start()]
            case b",":
                if depth == 0:
                    return text[start : mark.start()]
            case _:
                return None
    return None
