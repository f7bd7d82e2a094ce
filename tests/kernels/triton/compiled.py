# pyright: basic
"""What every kernel compiles to, as data: `results/`, and the page `docs/kernels.md`.

python -m tests.kernels.triton.compiled --write [OPERATION ...]   these, or all of them (minutes)
python -m tests.kernels.triton.compiled --page      the page alone, from the results
python -m tests.kernels.triton.compiled --check     one shape of each, and wrong ones, as JSON
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

import triton

from benchmarks.kernel_cases import Case, Place, all_cases
from kvproto.kernels.triton.launch import Launch
from tests.kernels.triton.compiling import TARGETS, compile_launch, source_of
from tests.kernels.triton.page import PAGE, read_results, rendered, write_results
from tests.kernels.triton.wrong import wrong_launches

__all__ = ["Job", "jobs", "measured", "sample"]

_SLOTS = 1 << 21
"""Large enough that pools have more than 2 GiB, as compilers are told."""


class Job(NamedTuple):
    """A launch that is compiled; the first case of those that it is the same for names it."""

    operation: str
    shape: str
    tokens: int
    launch: Launch

    @property
    def name(self) -> str:
        """What it is found by in the results."""
        return f"{self.operation}: {self.shape}, {self.tokens} tokens"

    @property
    def digest(self) -> str:
        """Of all that the result follows from, but for the target."""
        launch = self.launch
        types = [(name, _type(value)) for name, value in launch.arguments.items()]
        constants = [sorted(launch.constants_on(target).items()) for target in TARGETS]
        facts = (source_of(launch.kernel), types, constants, launch.threads)
        return hashlib.sha256(repr((triton.__version__, facts)).encode()).hexdigest()[:16]


def jobs() -> list[Job]:
    """Every distinct launch of every case, first those that a case begins with."""
    found: dict[tuple[str, str], Job] = {}
    for case in all_cases():
        for tokens in case.tokens:
            for launch in _launches(case, tokens):
                job = Job(case.operation, case.shape, tokens, launch)
                found.setdefault((case.operation, job.digest), job)
    return list(found.values())


def sample() -> list[Job]:
    """One of each operation, which follows from their digests: other sources have another."""
    kinds: dict[str, list[Job]] = {}
    for job in jobs():
        kinds.setdefault(job.operation, []).append(job)
    return [
        alike[sum(int(job.digest, 16) for job in alike) % len(alike)] for alike in kinds.values()
    ]


def two_of(number: int) -> tuple[str, ...]:
    """A target of each vendor, another for the next number."""
    return ("sm_80", "sm_90", "sm_100")[number % 3], ("gfx942", "gfx950")[number % 2]


def measured(
    these: Sequence[Job],
    workers: int = 2,
    targets: Callable[[int], tuple[str, ...]] = lambda _: tuple(TARGETS),
) -> dict[str, dict[str, Any]]:
    """For each, its digest, what alignment allows, and what its targets give."""
    context = multiprocessing.get_context("fork")
    work = [(index, target) for index in range(len(these)) for target in targets(index)]
    _JOBS[:] = these
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        done = dict(zip(work, pool.map(_one, work), strict=True))
    return {
        job.name: {
            "digest": job.digest,
            "unit": [job.launch.unit, job.launch.store_unit or job.launch.unit],
            "targets": {target: done[index, target] for target in targets(index)},
        }
        for index, job in enumerate(these)
    }


_JOBS: list[Job] = []
"""Of this process and those forked from it: tensors and kernels are not sent."""


def _one(work: tuple[int, str]) -> dict[str, Any]:
    index, target = work
    got = compile_launch(_JOBS[index].launch, target)
    return {
        "registers": got.registers,
        "spills": got.spills,
        "shared": got.shared,
        "load": max(got.loads, default=0),
        "store": max(got.stores, default=0),
        "narrow": len(got.narrow_multiplies),
    }


def _launches(case: Case, tokens: int) -> Iterator[Launch]:
    yield from case.plan(*case.inputs(Place("meta", tokens, _SLOTS)))


def main() -> int:
    """Compile, and print or write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("operations", nargs="*")
    chosen = parser.parse_args()
    if chosen.check:
        print(json.dumps(_check()))
        return 0
    asked = [job for job in jobs() if not chosen.operations or job.operation in chosen.operations]
    found = read_results() if chosen.page else measured(asked, os.cpu_count() or 1)
    if chosen.write:
        write_results(found)
    if chosen.write or chosen.page:
        PAGE.write_text(rendered(read_results()))
    else:
        print(rendered(found))
    return 0


def _check() -> dict[str, Any]:
    wrong = {
        name: compile_launch(launch, "sm_90").narrow_multiplies
        for name, launch in wrong_launches().items()
    }
    digests = {job.name: job.digest for job in jobs()}
    return {"digests": digests, "sample": measured(sample(), targets=two_of), "wrong": wrong}


def _type(value: object) -> object:
    """What a kernel is compiled for, of an argument."""
    if isinstance(value, tuple):
        return tuple(_type(each) for each in value)
    return str(getattr(value, "dtype", type(value).__name__))


if __name__ == "__main__":
    raise SystemExit(main())
