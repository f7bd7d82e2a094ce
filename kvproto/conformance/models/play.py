"""Run a machine on what a bench can build, and say how its shortest failure came about."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisException
from hypothesis.stateful import run_state_machine_as_test

from ..bench import Bench
from ..blame import blamed
from ..broken import LawBroken
from ..one_thread import one_thread
from ..search import further_runs
from .page_model import Differs

__all__ = ["play"]

_SLOW_IS_FINE = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.nested_given,
)
_SETTINGS = settings(
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    suppress_health_check=_SLOW_IS_FINE,
    verbosity=Verbosity.quiet,
)
_ROUNDS = ((20, 8), (10, 30))
"""How many sequences of how many steps: short ones first, whose failures are short."""


class _Enough(BaseException):
    """Ends the search; no Exception, which would be one more failure."""


@dataclass
class _Game:
    """What is known between the runs of a machine."""

    bench: Bench
    calls: list[str] = field(default_factory=list[str])
    shortest: tuple[list[str], Exception] | None = None
    tries: int = field(default_factory=further_runs)

    def begin(self) -> Bench:
        """A bench with a fresh allocator."""
        if self.shortest is not None:
            self.tries -= 1
        if self.tries < 0:
            raise _Enough
        return self.bench.sibling(self.bench.another())

    def end(self) -> None:
        """Keep the calls that led to the exception in flight, if they are fewer than any."""
        error = sys.exception()
        if not isinstance(error, Exception) or isinstance(error, HypothesisException):
            return
        if self.shortest is None or len(self.calls) < len(self.shortest[0]):
            self.shortest = list(self.calls), error

    def finding(self, calls: list[str], error: Exception) -> LawBroken:
        """The calls, and what came of the last, or of building alone."""
        told = "; ".join(calls) or "as built"
        if isinstance(error, Differs):
            return LawBroken(told, expected=error.expected, got=error.got)
        if isinstance(error, LawBroken):
            return LawBroken(f"{told}; {error.call}", expected=error.expected, got=error.got)
        found = blamed(error)
        told = "; ".join([*calls, found.call]) if found.call else told
        return LawBroken(told, expected="no exception", got=found.told)


def play(machine: Any, bench: Bench) -> Counter[str]:
    """How often each rule ran; the same sequences for the same seed, where the same modules are
    loaded: now and then Hypothesis draws a constant that it found in one of them.

    :raises LawBroken: with the shortest sequence of calls that was found to fail, within
        `further_runs`.
    """
    ran = Counter[str]()
    with one_thread():
        for examples, steps in _ROUNDS:
            _play_round(machine, _Game(bench), ran, examples, steps)
    return ran


def _play_round(machine: Any, game: _Game, ran: Counter[str], examples: int, steps: int) -> None:
    mine = {"subjects": st.builds(game.begin), "calls": game.calls, "teardown": game.end}
    kind = type(machine.__name__, (machine,), {**mine, "ran": ran})
    counts = settings(_SETTINGS, max_examples=examples, stateful_step_count=steps)
    try:
        run_state_machine_as_test(seed(game.bench.seed)(kind), settings=counts)
    except (Exception, _Enough):
        if game.shortest is None:
            raise
    if game.shortest is not None:
        raise game.finding(*game.shortest) from None
