"""`kvproto transfer-demo`: pages of real pools, from one process to another, and how fast."""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any, TypeAlias

import torch

from kvproto._bad_input import BadInput

from .pools import DEMO_POOLS
from .progress import Progress
from .sides import (
    DemoFailure,
    DemoOptions,
    DemoResult,
    Digests,
    Results,
    decode,
    prefill,
)

__all__ = ["measure", "run"]

_HEADER = ("pool", "moved", "blocks", "session", "share", "engine alone", "memcpy")
_TICK = 0.5
"""Seconds after which progress is shown though nothing was heard."""

Sides: TypeAlias = "list[Results]"
Main: TypeAlias = Callable[[DemoOptions, Sequence[socket.socket], Digests, Results], None]


def run(arguments: argparse.Namespace) -> int:
    """Both processes, and a table of what they found; 1 where a transfer failed."""
    for name in ("pages", "page_size", "layers", "rounds"):
        if getattr(arguments, name) < 1:
            raise BadInput(f"--{name.replace('_', '-')} must be at least 1")
    options = DemoOptions(
        kinds=tuple(arguments.pool or DEMO_POOLS),
        engine=arguments.engine,
        pages=arguments.pages,
        page_size=arguments.page_size,
        layers=arguments.layers,
        rounds=arguments.rounds,
        timeout=arguments.timeout,
    )
    found, failure = measure(options)
    if found:
        _show(options, found)
    if failure is not None:
        print(f"kvproto: {failure}", file=sys.stderr)
    return 0 if failure is None else 1


def measure(options: DemoOptions) -> tuple[list[DemoResult], str | None]:
    """What both processes found, kind by kind, and one line of why there is not more."""
    end = time.monotonic() + options.timeout  # before any wait of a session, which is as long
    with _processes(options) as sides, Progress(len(options.kinds)) as progress:
        return _heard(sides, options, end, progress)


def _heard(
    sides: Sides, options: DemoOptions, end: float, progress: Progress
) -> tuple[list[DemoResult], str | None]:
    """What was found, and what failed first: the other side's failure may follow from it."""
    living = list(sides)
    found: list[DemoResult] = []
    failures: list[DemoFailure] = []
    while len(found) < len(options.kinds) and living and not failures:
        progress.show(len(found))
        connection.wait(living, min(max(0.0, end - time.monotonic()), _TICK))
        if time.monotonic() >= end:
            return found, f"not done in {options.timeout:g} seconds"
        for side in [each for each in living if each.poll()]:
            try:
                said = side.recv()
            except EOFError:
                living.remove(side)
                continue
            match said:
                case DemoResult():
                    found.append(said)
                case DemoFailure():
                    failures.append(said)
    if failures:
        return found, min(failures, key=lambda each: each.at).line
    lacking = len(found) < len(options.kinds)
    return found, "a process of the demo ended before it was done" if lacking else None


@contextmanager
def _processes(options: DemoOptions) -> Generator[Sides]:
    """Prefill and decode, ended with this block. Forked: what they need is imported once."""
    context = multiprocessing.get_context("fork")
    pairs = [socket.socketpair() for _ in options.kinds]
    digests: Any = context.Pipe()  # of a class that depends on the system
    results: list[Any] = [context.Pipe(duplex=False) for _ in range(2)]
    ends: list[_Ends] = [
        _Ends([pair[at] for pair in pairs], digests[at], results[at][1]) for at in range(2)
    ]
    mains = (prefill, decode)
    processes = [
        context.Process(target=_child, args=(mains[at], options, ends[at], ends[1 - at]))
        for at in range(2)
    ]
    try:
        for process in processes:
            process.start()
        for each in ends:
            each.close()
        yield [reading for reading, _ in results]
    finally:
        for process in processes:
            process.join(timeout=2)
            process.kill()


@dataclass(frozen=True, slots=True)
class _Ends:
    """What one process has of the connections; closed by the others, so that its end is seen."""

    peers: list[socket.socket]
    digests: Digests
    results: Results

    def close(self) -> None:
        for each in self.peers:
            each.close()
        self.digests.close()
        self.results.close()


def _child(main: Main, options: DemoOptions, own: _Ends, others: _Ends) -> None:
    others.close()
    torch.set_num_threads(1)  # threads are not forked
    main(options, own.peers, own.digests, own.results)
    own.close()


def _show(options: DemoOptions, found: Sequence[DemoResult]) -> None:
    print(
        f"{options.pages} pages of {options.page_size} tokens, {options.layers} layers, from one "
        f"process to another by {options.engine}; every row was held against the sender's"
    )
    rows = [_HEADER, *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        print("  ".join((row[0].ljust(widths[0]), *cells)))


def _row(each: DemoResult) -> tuple[str, ...]:
    best = each.best
    took = best.session, best.engine, best.memcpy
    session, engine, memcpy = (f"{each.nbytes / s / 2**20:,.0f} MiB/s" for s in took)
    share = f"{best.engine / best.session:.0%}"
    moved = f"{each.nbytes / 2**20:.1f} MiB"
    return each.kind, moved, f"{each.blocks:,}", session, share, engine, memcpy
