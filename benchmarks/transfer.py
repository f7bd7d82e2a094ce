"""How fast a session moves pages between two processes, beside its engine alone.

python -m benchmarks.transfer [--rounds N] [--engine nixl|mooncake|local] [--write]

Needs no accelerator. Pools are those of an 8B Llama: 32 layers of 8 heads of 128, in pages of
64 tokens. Ends with status 1 where a session is slower than is demanded, 2 where it could not run.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

from kvproto.transfer.demo.command import measure
from kvproto.transfer.demo.sides import DemoOptions, DemoResult

from .report import machine_facts, markdown_table, print_table, verdict, write_section

__all__ = ["AT_LEAST", "AT_LEAST_BY_THE_WALL", "PAGES", "main", "rate", "shortfalls", "wall_rate"]

AT_LEAST = 0.9
"""Of the rate of one bare write of the engine, with the same blocks."""

AT_LEAST_BY_THE_WALL = 0.8
"""The same of the least times by the clock: what a thread that sleeps loses, and others take."""

PAGES, PAGE_SIZE, LAYERS = 32, 64, 32
_PAGE = Path(__file__).parent.parent / "docs" / "transfer-sessions.md"
_HEADER = (
    "pool",
    "moved",
    "blocks",
    "of the engine alone",
    "at least",
    "by the wall",
    "at least",
    "memcpy",
)


def rate(found: DemoResult) -> float:
    """The session's rate, the engine's alone being 1, of the sender's thread: its median."""
    return median(each.engine_thread / each.session_thread for each in found.rounds)


def wall_rate(found: DemoResult) -> float:
    """The session's rate by the clock on the wall, the engine's alone being 1, of least times."""
    return found.best.engine / found.best.session


def shortfalls(found: DemoResult) -> list[str]:
    """What is less than is demanded."""
    thread, wall = rate(found), wall_rate(found)
    missed = [f"{thread:.2f} of the engine alone"] if thread < AT_LEAST else []
    return missed + ([f"{wall:.2f} by the wall"] if wall < AT_LEAST_BY_THE_WALL else [])


def main() -> int:
    """Measure, print, and write with `--write`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--engine", choices=("nixl", "mooncake", "local"), default="nixl")
    parser.add_argument("--write", action="store_true", help="put the table into docs/")
    arguments = parser.parse_args()
    options = DemoOptions(
        kinds=("mha",),
        engine=arguments.engine,
        pages=PAGES,
        page_size=PAGE_SIZE,
        layers=LAYERS,
        rounds=arguments.rounds,
        timeout=300,
    )
    found, failure = measure(options)
    if failure is not None:
        print(failure, file=sys.stderr)
        return 2
    rows = [_row(each) for each in found]
    print_table(f"pages of {PAGE_SIZE} tokens by {arguments.engine}", _HEADER, rows)
    missed = [line for each in found for line in shortfalls(each)]
    print(verdict(missed))
    if arguments.write:
        write_section("transfer", _section(arguments, rows, missed), _PAGE)
    return 1 if missed else 0


def _row(each: DemoResult) -> tuple[str, ...]:
    return (
        "keys and values of an 8B Llama",
        f"{PAGES} pages, {each.nbytes / 2**20:.0f} MiB",
        str(each.blocks),
        f"{rate(each):.2f}",
        str(AT_LEAST),
        f"{wall_rate(each):.2f}",
        str(AT_LEAST_BY_THE_WALL),
        f"{each.best.memcpy / each.best.session:.2f}",
    )


def _section(arguments: argparse.Namespace, rows: list[tuple[str, ...]], missed: list[str]) -> str:
    return "\n\n".join(
        [
            "## How fast",
            f"`python -m benchmarks.transfer --rounds {arguments.rounds} --engine "
            f"{arguments.engine} --write`, on {machine_facts()}.",
            "Two processes; in each round the same blocks are copied within a process, go by one "
            "bare write of the engine, and go by a session. Over shared memory the engine copies "
            "on the thread that writes, so that rates are compared by what this thread had of the "
            "processor, the median of the rounds' ratios: other processes do not count. A thread "
            "that sleeps loses nothing by that, so that the ratio by the clock on the wall, of the "
            "least times of all rounds, is demanded too. The last is that to the copy, by the "
            "wall.",
            markdown_table(_HEADER, rows),
            verdict(missed),
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
