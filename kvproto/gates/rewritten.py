"""What became of the gates of one file."""

from __future__ import annotations

from dataclasses import dataclass

from .gate import Gate

__all__ = ["Left", "Rewritten"]


@dataclass(frozen=True, slots=True)
class Left:
    """A gate on classes that is as it was, and why."""

    gate: Gate
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """`before` and `after` are equal where nothing was to be done."""

    file: str
    before: bytes
    after: bytes
    done: tuple[Gate, ...]
    left: tuple[Left, ...]
