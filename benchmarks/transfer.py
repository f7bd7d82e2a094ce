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

__all__ = ["AT_LEAST", "PAGES", "main", "rate", "shortfalls"]

AT_LEAST = 0.9
"""Of the rate of one bare write of the engine, with the same blocks."""

PAGES, PAGE_SIZE, LAYERS = 32, 64, 32
_PAGE = Path(__file__).parent.parent / "docs" / "transfer-sessions.md"
_HEADER = (
    "pool",
    "moved",
    "blocks",
    "of the engine alone",
    "at least",
    "memcpy",
)


def rate(found: DemoResult) -> float:
    """The session's rate, the engine's alone being 1: of the medians of all rounds."""
    return median(each.engine for each in found.rounds) / _session(found)


def _session(found: DemoResult) -> float:
    return median(each.session for each in found.rounds)


def shortfalls(found: DemoResult) -> list[str]:
    """What is less than is demanded."""
    return [f"{rate(found):.2f} of the engine alone"] if rate(found) < AT_LEAST else []


def main() -> int:
    """Measure, print, and write with `--write`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=80)
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
        f"{median(r.memcpy for r in each.rounds) / _session(each):.2f}",
    )


def _section(arguments: argparse.Namespace, rows: list[tuple[str, ...]], missed: list[str]) -> str:
    return "\n\n".join(
        [
            "## How fast",
            f"`python -m benchmarks.transfer --rounds {arguments.rounds} --engine "
            f"{arguments.engine} --write`, on {machine_facts()}.",
            "Two processes; in each round the same blocks go by one bare write of the engine and "
            "by a session, each as often first, and are copied within a process. Rates are by the "
            "clock on the wall, of the medians of all rounds; the last is that to the copy.",
            markdown_table(_HEADER, rows),
            verdict(missed),
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
