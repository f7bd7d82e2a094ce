"""Ratios of small statements, measured so that a busy machine matters as little as it can."""

from __future__ import annotations

import timeit
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

__all__ = ["Timings", "measure"]

_UNROLLED = 20
_SECONDS_PER_SAMPLE = 0.002


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds per statement, one sample a round; rounds of all statements are interleaved."""

    samples: Mapping[str, tuple[float, ...]]

    def nanoseconds(self, name: str) -> float:
        """The median of a statement."""
        return median(self.samples[name]) * 1e9

    def ratio(self, name: str, to: str) -> float:
        """The median of the ratios within each round: what slows a round slows both."""
        pairs = zip(self.samples[name], self.samples[to], strict=True)
        return median(a / b for a, b in pairs)


def measure(statements: Mapping[str, str], names: Mapping[str, Any], rounds: int) -> Timings:
    """Time every statement once a round, each for about the same time.

    A sample runs the statement 20 times per iteration, so that the loop weighs little. The
    garbage collector rests meanwhile (`timeit` sees to it).
    """
    timers = {
        name: timeit.Timer("\n".join([statement] * _UNROLLED), globals=dict(names))
        for name, statement in statements.items()
    }
    numbers = {name: _iterations(timer) for name, timer in timers.items()}
    samples: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name, timer in timers.items():
            seconds = timer.timeit(numbers[name])
            samples[name].append(seconds / numbers[name] / _UNROLLED)
    return Timings({name: tuple(values) for name, values in samples.items()})


def _iterations(timer: timeit.Timer) -> int:
    timer.timeit(10)
    return max(1, int(_SECONDS_PER_SAMPLE / (timer.timeit(10) / 10)))
