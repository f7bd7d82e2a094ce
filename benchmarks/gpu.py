"""Kernels on a GPU: each is checked against its twin, then timed; from a bare checkout.

python -m benchmarks.gpu                     every kernel, at most five minutes
python -m benchmarks.gpu --only OPERATION    one of them

Needs torch and Triton alone. Prints what share of a large device copy's bandwidth each reaches, and
how many times as fast as `index_put_` or `index_select`. The exit status is 1 where a kernel
differs from its twin or a demanded share is missed, 2 without a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import torch

from benchmarks.kernel_cases import Case, Inputs, Place, all_cases, tensors_of
from benchmarks.report import print_table, verdict

__all__ = ["Timing", "bulk_of", "main", "wrong"]

_BULK_BYTES = 256 << 20
_ROUNDS = 20


class Timing(NamedTuple):
    """Of one kernel: gigabytes a second that it had to move, and ratios."""

    case: Case
    tokens: int
    bandwidth: float
    share: float
    to_plain: float | None


def main() -> int:
    """Check and time."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--only", help="an operation")
    parser.add_argument("--seconds", type=float, default=280.0, help="stop timing after these")
    chosen = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch sees no GPU: nothing was checked or measured")
        return 2
    end = time.monotonic() + chosen.seconds
    cases = [case for case in all_cases() if chosen.only in (None, case.operation)]
    bad = [f"{case.name}: {said}" for case in cases if (said := wrong(case, "cuda"))]
    copied = _copy_bandwidth()
    timings = [_timed(case, copied) for case in _spread(cases) if time.monotonic() < end]
    _show(timings, copied, len(cases))
    missed = [
        f"{each.case.name}: {each.share:.2f} of a copy, demanded {each.case.goal:.2f}"
        for each in timings
        if each.share < each.case.goal
    ]
    print(verdict([*bad, *missed]))
    return 1 if bad or missed else 0


def wrong(case: Case, device: str) -> str:
    """What is wrong with a kernel; empty where it and its twin leave the same bytes."""
    tokens = min(case.tokens)
    place = Place(device, tokens, 4 * tokens)
    expected, launched = case.inputs(place), case.inputs(Place(device, tokens, 4 * tokens))
    with _twins(device):
        case.call(*expected)
    run_all(case, launched)
    if not _same(launched, expected):
        return "the kernel differs from its twin"
    if device == "cpu":
        return ""
    captured = case.inputs(Place(device, tokens, 4 * tokens))
    _replayed(case, captured)
    return "" if _same(captured, expected) else "replayed from a graph, it differs from its twin"


def run_all(case: Case, inputs: Inputs) -> None:
    """Launch what the case plans."""
    from kvproto.kernels.triton.launch import run

    for launch in case.plan(*inputs):
        run(launch)


def bulk_of(case: Case) -> int:
    """How many tokens a case is timed with."""
    if case.bulk:
        return case.bulk
    few = 1024
    return few * _BULK_BYTES // case.moves(*case.inputs(Place("meta", few, 2 * few)))


class _twins:
    """Operations are done by torch in this block."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __enter__(self) -> None:
        from kvproto.kernels import follow_platform

        follow_platform(self.device, False)

    def __exit__(self, *_: object) -> None:
        from kvproto.kernels import follow_platform

        follow_platform(self.device, self.device != "cpu")


def _same(ours: Inputs, theirs: Inputs) -> bool:
    pairs = zip(tensors_of(ours), tensors_of(theirs), strict=True)
    return all(
        torch.equal(got.reshape(-1).view(torch.uint8), expected.reshape(-1).view(torch.uint8))
        for got, expected in pairs
    )


def _replayed(case: Case, inputs: Inputs) -> None:
    """Capture the launches, once kernels are compiled; replay them on what was there before."""
    graph = torch.cuda.CUDAGraph()
    before = [tensor.clone() for tensor in tensors_of(inputs)]
    run_all(case, inputs)
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        run_all(case, inputs)
    for tensor, was in zip(tensors_of(inputs), before, strict=True):
        tensor.copy_(was)
    graph.replay()
    torch.cuda.synchronize()


def _timed(case: Case, copied: float) -> Timing:
    tokens = bulk_of(case)
    inputs = case.inputs(Place("cuda", tokens, 2 * tokens, padding=False))
    seconds = _seconds(partial(run_all, case, inputs))
    bandwidth = case.moves(*inputs) / seconds / 1e9
    plain = None if case.plain is None else _seconds(partial(case.plain, *inputs)) / seconds
    return Timing(case, tokens, bandwidth, bandwidth / copied, plain)


def _seconds(work: Callable[[], object]) -> float:
    """The median of a few runs, each with cold caches."""
    flush = torch.empty(_BULK_BYTES, dtype=torch.uint8, device="cuda")
    work()
    took: list[float] = []
    for _ in range(_ROUNDS):
        flush.zero_()
        start, end = (torch.Event("cuda", enable_timing=True) for _ in "ab")
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end) / 1e3)
    return median(took)


def _copy_bandwidth() -> float:
    """Gigabytes a second that a large copy reads and writes."""
    source = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / _seconds(lambda: target.copy_(source)) / 1e9


def _spread(cases: list[Case]) -> list[Case]:
    """The first of every operation, then the second: a time limit cuts no operation off."""
    seen: dict[str, int] = {}
    turns: list[tuple[int, Case]] = []
    for case in cases:
        turns.append((seen.get(case.operation, 0), case))
        seen[case.operation] = seen.get(case.operation, 0) + 1
    return [case for _, case in sorted(turns, key=lambda turn: turn[0])]


def _show(timings: list[Timing], copied: float, cases: int) -> None:
    rows = [
        (
            each.case.name,
            str(each.tokens),
            f"{each.bandwidth:.0f}",
            f"{each.share:.2f}",
            "" if each.to_plain is None else f"{each.to_plain:.2f}",
        )
        for each in timings
    ]
    name, version = torch.cuda.get_device_name(), torch.__version__
    title = f"{name}, torch {version}: a copy moves {copied:.0f} GB/s; {len(rows)} of {cases} timed"
    print_table(title, ("kernel", "tokens", "GB/s", "of a copy", "x plain torch"), rows)


if __name__ == "__main__":
    raise SystemExit(main())
