"""One status for several geometries."""

from __future__ import annotations

from collections.abc import Iterable

from .report import LawResult, LawStatus

__all__ = ["worst_status"]

_WORST_FIRST: tuple[LawStatus, ...] = (
    "failed",
    "unexpected",
    "expected",
    "advisory",
    "blocked",
    "passed-by-fallback",
    "passed",
    "not asked",
)


def worst_status(results: Iterable[LawResult]) -> LawStatus:
    """What to show for a law that was run on several geometries."""
    found = {result.status for result in results}
    return next(status for status in _WORST_FIRST if status in found)
