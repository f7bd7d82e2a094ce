"""How long laws that draw their calls look for a shorter sequence that fails, once there is one."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["first_failure_will_do", "further_runs"]

_RUNS: ContextVar[int] = ContextVar("_RUNS", default=200)


def further_runs() -> int:
    """Runs in search of a shorter failure: shrinking has no limit of its own."""
    return _RUNS.get()


@contextmanager
def first_failure_will_do() -> Generator[None]:
    """Until the end nobody looks for a shorter one: for callers that ask whether a law fails."""
    token = _RUNS.set(0)
    try:
        yield
    finally:
        _RUNS.reset(token)
