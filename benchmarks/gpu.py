"""Kernels on a GPU: each is checked against its twin, then timed; from a bare checkout.

python -m benchmarks.gpu                     every kernel, at most ten minutes
python -m benchmarks.gpu --only OPERATION    one of them
python -m benchmarks.gpu --tune              instead: the fastest tiles of the first case of each

Needs torch and Triton alone. Each is checked at every size it is compiled for and at the one that
is timed, also replayed from a captured graph on other locations. Prints what share of a large
device copy's bandwidth each reaches, how many times as fast as `index_put_` or `index_select`, and
how many times as long as a kernel takes the host plans its launches. The exit status is 1 where a
kernel differs from its twin, misses a demanded share, raises, or was not reached in time; 2 without
a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import NamedTuple

import torch

from benchmarks.gpu_check import wrong
from benchmarks.gpu_timing import Timing, copy_bandwidth, missed, timed
from benchmarks.gpu_tune import Swept, swept
from benchmarks.kernel_cases import Case, all_cases
from benchmarks.report import print_table, verdict

__all__ = ["Outcome", "examined", "main", "spread"]


class Outcome(NamedTuple):
    """What is wrong with a case, empty for nothing, and its timing where there is one."""

    said: str
    timing: Timing | None = None


def main() -> int:
    """Check and time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", help="an operation")
    parser.add_argument("--seconds", type=float, default=540.0, help="begin no case after these")
    parser.add_argument("--tune", action="store_true", help="sweep sizes of tiles instead")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch sees no GPU: nothing was checked or measured")
        return 2
    end = time.monotonic() + chosen.seconds
    cases = [case for case in all_cases() if chosen.only in (None, case.operation)]
    if not cases:
        parser.error(f"no operation {chosen.only!r}")
    if chosen.tune:
        _show_tiles([swept(case) for case in _firsts(cases)])
        return 0
    copied = copy_bandwidth()
    outcomes = list(_in_time(spread(cases), copied, end))
    _show([each.timing for each in outcomes if each.timing], copied, len(cases))
    bad = [each.said for each in outcomes if each.said]
    print(verdict(bad))
    return 1 if bad else 0


def examined(case: Case, copied: float) -> Outcome:
    """Check and time one; whatever it raises is said of it, and others go on."""
    try:
        if said := wrong(case, "cuda"):
            return Outcome(f"{case.name}: {said}")
        timing = timed(case, copied)
    except Exception as error:  # of a kernel or a compiler: any there is
        return Outcome(f"{case.name}: {type(error).__name__}: {_first_line(error)}")
    return Outcome(missed(timing), timing)


def spread(cases: list[Case]) -> list[Case]:
    """The first of every operation, then the second: a time limit cuts no operation off."""
    seen: dict[str, int] = {}
    turns: list[tuple[int, Case]] = []
    for case in cases:
        turns.append((seen.get(case.operation, 0), case))
        seen[case.operation] = seen.get(case.operation, 0) + 1
    return [case for _, case in sorted(turns, key=lambda turn: turn[0])]


def _in_time(cases: list[Case], copied: float, end: float) -> Iterator[Outcome]:
    """Of every case; one that is begun too late is not examined, which is no success."""
    for case in cases:
        if time.monotonic() < end:
            yield examined(case, copied)
        else:
            yield Outcome(f"{case.name}: not reached in time, neither checked nor timed")


def _firsts(cases: list[Case]) -> list[Case]:
    """Of each operation."""
    return list({case.operation: case for case in reversed(cases)}.values())[::-1]


def _show_tiles(found: list[Swept]) -> None:
    rows = [(each.case.name, each.tiles, f"{each.factor:g}", f"{each.gain:.2f}") for each in found]
    print_table("tiles", ("kernel", "served", "best, x served", "times as fast"), rows)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _show(timings: list[Timing], copied: float, cases: int) -> None:
    rows = [
        (
            each.case.name,
            str(each.tokens),
            f"{each.bandwidth:.0f}",
            f"{each.share:.2f}",
            "" if each.to_plain is None else f"{each.to_plain:.2f}",
            f"{each.planning:.2f}",
        )
        for each in timings
    ]
    name, version = torch.cuda.get_device_name(), torch.__version__
    title = f"{name}, torch {version}: a copy moves {copied:.0f} GB/s; {len(rows)} of {cases} timed"
    header = ("kernel", "tokens", "GB/s", "of a copy", "x plain torch", "planning, x kernel")
    print_table(title, header, rows)


if __name__ == "__main__":
    raise SystemExit(main())
