"""Waiting for what only polling brings about."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["until"]

_AT_ONCE = 20
_PAUSE = 0.0003


def until(poll: Callable[[], None], is_over: Callable[[], bool]) -> None:
    """Poll until it is over: first without a pause, then with short ones."""
    polled = 0
    while not is_over():
        poll()
        polled += 1
        if polled > _AT_ONCE and not is_over():
            time.sleep(_PAUSE)
