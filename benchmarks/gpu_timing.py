"""How long kernels take on a GPU, and how long planning their launches takes on the host."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import torch

from benchmarks.gpu_check import BULK_BYTES, bulk_of, run_all
from benchmarks.kernel_cases import Case, Place

__all__ = ["Timing", "copy_bandwidth", "missed", "seconds_of", "timed"]

_ROUNDS = 20


class Timing(NamedTuple):
    """Of one kernel: gigabytes a second that it had to move, and ratios.

    `share` is that of a large copy's bandwidth, `to_plain` how many times as fast as `case.plain`,
    `planning` how many times as long as the kernel the host plans its launches.
    """

    case: Case
    tokens: int
    bandwidth: float
    share: float
    to_plain: float | None
    planning: float


def timed(case: Case, copied: float) -> Timing:
    """Time it at its bulk; `copied` is what `copy_bandwidth` returned."""
    tokens = bulk_of(case)
    inputs = case.inputs(Place("cuda", tokens, 2 * tokens, padding=False))
    seconds = seconds_of(partial(run_all, case, inputs))
    planned = _host_seconds(lambda: list(case.plan(*inputs)))
    bandwidth = case.moves(*inputs) / seconds / 1e9
    plain = None if case.plain is None else seconds_of(partial(case.plain, *inputs)) / seconds
    return Timing(case, tokens, bandwidth, bandwidth / copied, plain, planned / seconds)


def missed(timing: Timing) -> str:
    """What is demanded of it and not reached; empty for nothing."""
    if timing.share >= timing.case.goal:
        return ""
    return f"{timing.case.name}: {timing.share:.2f} of a copy, demanded {timing.case.goal:.2f}"


def copy_bandwidth() -> float:
    """Gigabytes a second that a large copy reads and writes."""
    source = torch.zeros(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / seconds_of(lambda: target.copy_(source)) / 1e9


def seconds_of(work: Callable[[], object]) -> float:
    """The median of a few replays, each with cold caches: a graph leaves out the host's part."""
    flush = torch.empty(BULK_BYTES, dtype=torch.uint8, device="cuda")
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    graph.replay()
    took: list[float] = []
    for _ in range(_ROUNDS):
        flush.zero_()
        start, end = (torch.Event("cuda", enable_timing=True) for _ in "ab")
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end) / 1e3)
    return median(took)


def _host_seconds(work: Callable[[], object]) -> float:
    """The median of a few runs on the host, tables of addresses being there already."""
    took: list[float] = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return median(took)
