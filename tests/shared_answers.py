"""Answers that take long to compute, computed once by the processes that share a run's tests."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["once"]


def once(
    name: str, ask: Callable[[], dict[str, Any]], folders: pytest.TempPathFactory
) -> dict[str, Any]:
    """What `ask` gives, an object of JSON, to every process of this run under this name.

    The first to come asks, those that come meanwhile wait for it. Nothing outlives the run. Where
    `ask` raises, nothing is kept: the next one asks again.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return ask()
    shared = folders.getbasetemp().parent  # of the run; each process has a folder in it
    kept = shared / f"{name}.json"
    with (shared / f"{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(json.dumps(ask()))
    answers: dict[str, Any] = json.loads(kept.read_text())
    return answers
