"""How long a plan takes, for each of the example configs.

python -m benchmarks.plan [--rounds N] [--write]

Needs no accelerator and no sglang. Ends with status 1 where a plan takes longer than is demanded.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    ServingOptions,
    SpeculativeOptions,
    example_config,
    example_names,
    plan,
)
from kvproto.configurator.in_tree import CPU

from .interleaved import Samples, interleave, ratio
from .report import machine_facts, markdown_table, print_table, verdict, write_section

__all__ = ["AT_MOST_MS", "main", "measure", "medians"]

AT_MOST_MS = 5.0
"""Milliseconds that a plan may take."""

_PLANNED, _PARSED = "plan", "parse"
_EVERY = replace(CPU, subsystems=frozenset({"compressed_pool", "qsa_pool"}))
_OPTIONS = ServingOptions(
    page_size=128,
    context_len=4096,
    max_running_requests=32,
    max_total_tokens=1 << 20,
    speculative=SpeculativeOptions(kind="eagle", draft_tokens=4, draft_layers=1),
)
Row = tuple[str, ...]


def measure(rounds: int) -> dict[str, Samples]:
    """Model -> seconds of a plan, with a draft, and of parsing the config that it is made from."""
    return {name: interleave(_statements(name), rounds) for name in example_names()}


def _statements(name: str) -> dict[str, Callable[[], object]]:
    config = example_config(name)
    shape, text = ModelShape.from_hf_config(config), json.dumps(config)
    budget = MemoryBudget.of_caches(80 << 30)
    alone = replace(_OPTIONS, speculative=None)
    options = alone if shape.compressed is not None else _OPTIONS
    planned = partial(plan, shape, options, ParallelLayout(), budget, platform=_EVERY)
    return {_PLANNED: planned, _PARSED: partial(json.loads, text)}


def medians(samples: dict[str, Samples]) -> dict[str, float]:
    """Milliseconds of each model's plan."""
    return {name: median(each[_PLANNED]) * 1e3 for name, each in samples.items()}


def main() -> int:
    """Print the table; with --write also into docs/benchmarks.md. 1 where a plan takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31, help="samples per row")
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    options = parser.parse_args()
    samples = measure(options.rounds)
    (header, rows), missed = _table(samples), _missed(samples)
    print_table(machine_facts(), header, rows)
    print(_slowest(samples), verdict(missed), sep="\n")
    if options.write:
        body = [_introduction(options.rounds), markdown_table(header, rows), _slowest(samples)]
        write_section("plan", "\n\n".join([*body, verdict(missed)]))
    return 1 if missed else 0


def _table(samples: dict[str, Samples]) -> tuple[Row, list[Row]]:
    header = ("model", "layers", "ms", "to parsing its config", "limit, ms")
    return header, [
        (
            name,
            str(len(ModelShape.from_hf_config(example_config(name)).layers)),
            f"{taken:.2f}",
            f"{ratio(samples[name], _PLANNED, _PARSED):.1f}",
            f"{AT_MOST_MS:.1f}",
        )
        for name, taken in medians(samples).items()
    ]


def _missed(samples: dict[str, Samples]) -> list[str]:
    found = medians(samples).items()
    return [f"{name}: {ms:.1f} ms, wanted {AT_MOST_MS}" for name, ms in found if ms > AT_MOST_MS]


def _slowest(samples: dict[str, Samples]) -> str:
    taken = medians(samples)
    name = max(taken, key=lambda each: taken[each])
    return f"The slowest of {len(taken)}: {name}, {taken[name]:.2f} ms."


def _introduction(rounds: int) -> str:
    return f"""## Plans

`python -m benchmarks.plan --rounds {rounds} --write`, on {machine_facts()}.

Each row plans one device's caches of an example config, a draft of one layer among them where rows
are not compressed. Demanded: at most {AT_MOST_MS:.0f} ms on any of them. Medians over the rounds of
one run, of the thread's own time; the ratio is to `json.loads` of the same config, and travels
between machines."""


if __name__ == "__main__":
    raise SystemExit(main())
