"""Times of calls that are made in turns, and a process in which sglang can be called too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from time import thread_time
from typing import TypeAlias

__all__ = ["Samples", "in_interop_venv", "interleave", "ratio"]

ROOT = Path(__file__).resolve().parents[1]

Samples: TypeAlias = dict[str, list[float]]
"""Who -> seconds per call, one of each round."""


def interleave(calls: Mapping[str, Callable[[], object]], rounds: int) -> Samples:
    """Call everybody once a round, each for about the same time."""
    found: Samples = {name: [] for name in calls}
    for name in list(calls) * rounds:
        found[name].append(_seconds(calls[name]))
    return found


def ratio(samples: Samples, of: str, to: str) -> float:
    """The median of the ratios within each round: what slows a round slows both."""
    return median(a / b for a, b in zip(samples[of], samples[to], strict=True))


def _seconds(call: Callable[[], object], at_least: float = 0.002) -> float:
    """Of one repetition, over about two milliseconds.

    The thread's own time: what other processes take from a busy machine does not count. So the
    calls must do their work on the thread they are made on, and wait for nothing.
    """
    call()
    start = thread_time()
    call()
    number = max(1, int(at_least / (thread_time() - start)))
    start = thread_time()
    for _ in range(number):
        call()
    return (thread_time() - start) / number


def in_interop_venv(module: str, rounds: int) -> dict[str, Samples] | None:
    """What `python -m module --measure` prints where sglang is; None, and why, where it is not."""
    from tests.interop.report import ENVIRONMENT

    python = ROOT / ".interop-venv" / "bin" / "python"
    if not python.exists():
        print("sglang is not installed (make interop-venv): ours is shown alone", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as scratch:
        environment = os.environ | ENVIRONMENT | {"SGLANG_CACHE_DIR": scratch}
        done = subprocess.run(
            [str(python), "-m", module, "--measure", "--rounds", str(rounds)],
            env={k: v for k, v in environment.items() if k != "TRITON_INTERPRET"},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    found: dict[str, Samples] = json.loads(done.stdout.splitlines()[-1])
    return found
