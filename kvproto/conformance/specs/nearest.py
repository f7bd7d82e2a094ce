"""Names like one that does not exist, for a line that a person can read."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["nearest"]

_SHOWN = 3


def nearest(name: str, names: Iterable[str]) -> str:
    """The most alike, if any are, and the command that lists all."""
    like = get_close_matches(name, list(names), n=_SHOWN)
    said = f"the nearest are {', '.join(like)}; " if like else ""
    return f"{said}`kvproto laws` lists all"
