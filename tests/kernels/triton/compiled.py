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
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.runtime.jit import JITFunction

from benchmarks.kernel_cases import Place, all_cases
from kvproto.kernels.triton.launch import Launch
from tests.kernels.triton.compiling import TARGETS, compile_launch, compiled_for, source_of
from tests.kernels.triton.page import PAGE, read_results, rendered, write_results
from tests.kernels.triton.wrong import wrong_launches

__all__ = ["Job", "jobs", "measured", "sample"]

_SLOTS = 1 << 21
"""Large enough that pools have more than 2 GiB, as compilers are told."""


class Job(NamedTuple):
    """A launch that is compiled; the first case of those that it is the same for names it.

    `number` tells apart what a case launches one after the other.

    `allowed` are the bytes of the widest load and store that the memory of its rows allows, which
    the launch has no part in; None for a kernel that copies no rows.
    """

    operation: str
    shape: str
    tokens: int
    launch: Launch
    allowed: tuple[int, int] | None
    number: int = 1

    @property
    def name(self) -> str:
        """What it is found by in the results."""
        several = "" if self.number == 1 else f", launch {self.number}"
        return f"{self.operation}: {self.shape}, {self.tokens} tokens{several}"

    @property
    def digest(self) -> str:
        """Of all that the result follows from, but for the target."""
        facts = source_of(self.launch.kernel), [compiled_for(self.launch, t) for t in TARGETS]
        return hashlib.sha256(repr((triton.__version__, facts)).encode()).hexdigest()[:16]


def jobs() -> list[Job]:
    """Every distinct launch of every case, first those that a case begins with."""
    found: dict[tuple[str, str], Job] = {}
    for case in all_cases():
        for tokens in case.tokens:
            inputs = case.inputs(Place("meta", tokens, _SLOTS))
            for number, launch in enumerate(case.plan(*inputs), 1):
                allowed = case.widest(inputs, number)
                job = Job(case.operation, case.shape, tokens, launch, allowed, number)
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
            "allowed": job.allowed,
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
    every = jobs()
    return {
        "digests": {job.name: job.digest for job in every},
        "others": [job.digest for job in _others(every[0])],
        "sample": measured(sample(), targets=two_of),
        "wrong": wrong,
    }


def _others(job: Job) -> list[Job]:
    """The same, and with other options, attributes and arguments that are specialised on."""
    launch, at = job.launch, job.launch.arguments
    name = next(each for each, value in at.items() if isinstance(value, Tensor))
    moved = torch.empty_like(at[name]).view(-1)[1:]
    launches = (
        launch,
        replace(launch, threads=2 * launch.threads),
        replace(launch, arguments={**at, name: moved}),
        replace(launch, kernel=JITFunction(launch.kernel.fn, do_not_specialize=())),
    )
    return [job._replace(launch=each) for each in launches]


if __name__ == "__main__":
    raise SystemExit(main())
