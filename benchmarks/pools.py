"""Writing, moving and copying token rows, in ratios to sglang's real pools and to a C loop.

python -m benchmarks.pools [--rounds N] [--write]

The measurements run in a process of `.interop-venv`, where sglang is; without it only the C loop
is measured. Ends with status 1 where a demanded ratio is missed. Takes about 13 GB of memory.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch

from kvproto.reference import DSALeaf, MHALeaf, MLALeaf

from .c_rows import row_loops
from .interleaved import Samples, in_interop_venv, interleave, ratio
from .pool_cases import CASES, POOLS, Case
from .report import machine_facts, markdown_table, not_compared, print_table, verdict, write_section
from .row_cases import AT_LEAST, ROW_CASES, Calls, row_calls

__all__ = ["main", "measure"]

OURS: dict[str, Any] = {"MHA": MHALeaf, "MLA": MLALeaf, "DSA": DSALeaf}
AS_FAST = 0.95
"""As fast: by so much the same call differs from one run to the next."""
HEADERS = {
    "pools": ("call", "pool", "slots", "tokens", "us", "times sglang's speed"),
    "rows": ("rows of 2 KiB", "rows", "us", "times the speed", "at least", "of"),
}
Row = tuple[str, ...]


def measure(rounds: int, with_sglang: bool) -> dict[str, Samples]:
    """Label of a row -> seconds of each round, for whoever takes part."""
    torch.set_num_threads(1)  # Two threads on two busy cores measure the scheduler.
    found: dict[str, Samples] = {}
    calls: Calls = {}
    for (pool, size), cases in _by_pool().items() if with_sglang else ():
        family, keywords = POOLS[pool]
        pools = {"sglang": _real(family, keywords, size), "kvproto": _ours(family, keywords, size)}
        for case, n in cases:
            calls = {whose: case.run(each, whose, n) for whose, each in pools.items()}
            found[_label(case, n)] = interleave(calls, rounds)
        calls.clear()
        pools.clear()
        gc.collect()  # their gigabytes go before the next ones come
    loops = row_loops()
    for name, n, calls in row_calls(loops):
        found[f"{name}, {n}"] = interleave(calls, rounds)
    return found


def _by_pool() -> dict[tuple[str, int], list[tuple[Case, int]]]:
    found: dict[tuple[str, int], list[tuple[Case, int]]] = {}
    for case in CASES:
        found.setdefault((case.pool, case.size), []).extend((case, n) for n in case.tokens)
    return found


def _real(family: str, keywords: dict[str, Any], size: int) -> Any:
    make: Callable[..., Any] = import_module("benchmarks.sglang_pools").real_pool
    return make(family, keywords | {"size": size // 64 * 64})


def _ours(family: str, keywords: dict[str, Any], size: int) -> Any:
    return OURS[family](**keywords | {"size": size // 64 * 64})


def _label(case: Case, n: int) -> str:
    return f"{case.name}, {case.pool}, {case.size:.0e}, {n}"


def main() -> int:
    """Print both tables; with --write also into docs/benchmarks.md. 1 where a ratio is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="samples per row")
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        json.dump(measure(options.rounds, with_sglang=True), sys.stdout)
        return 0
    found = in_interop_venv("benchmarks.pools", options.rounds)
    samples = found or measure(options.rounds, False)
    tables = {"pools": list(_pool_rows(samples)), "rows": list(_row_rows(samples))}
    missed = list(_missed(samples))
    for name, rows in tables.items():
        print_table(f"{name}, {machine_facts()}", HEADERS[name], rows)
    if found is None:
        return not_compared()
    print(verdict(missed))
    if options.write:
        parts = [markdown_table(HEADERS[name], rows) for name, rows in tables.items() if rows]
        body = [_introduction(options.rounds), parts[0], _rows_introduction(), *parts[1:]]
        write_section("pools", "\n\n".join([*body, verdict(missed)]))
    return 1 if missed else 0


def _pool_rows(samples: dict[str, Samples]) -> Iterator[Row]:
    for case in CASES:
        for n in case.tokens:
            if (label := _label(case, n)) in samples:
                mine, faster = _both(samples[label], "sglang")
                size = f"{case.size:.0e}".replace("+0", "")
                yield case.name, case.pool, size, str(n), mine, f"{faster:.2f}"


def _row_rows(samples: dict[str, Samples]) -> Iterator[Row]:
    for name, against, n in ROW_CASES:
        found = samples[f"{name}, {n}"]
        if against in found:
            mine, faster = _both(found, against)
            yield name, str(n), mine, f"{faster:.2f}", f"{AT_LEAST[name]:.2f}", against


def _both(samples: Samples, against: str) -> tuple[str, float]:
    mine = sorted(samples["kvproto"])[len(samples["kvproto"]) // 2]
    return f"{mine * 1e6:.3g}", ratio(samples, against, "kvproto")


def _missed(samples: dict[str, Samples]) -> Iterator[str]:
    for row in _pool_rows(samples):
        if float(row[-1]) < AS_FAST:
            yield f"{', '.join(row[:4])} tokens: {row[-1]} times sglang's speed, wanted {AS_FAST}"
    for name, against, rows in ROW_CASES:
        if against not in samples[f"{name}, {rows}"]:
            yield f"{name}, {rows} rows: {against} could not be measured"
    for name, n, _, faster, wanted, against in _row_rows(samples):
        if float(faster) < float(wanted):
            yield f"{name}, {n} rows: {faster} times the speed of {against}, wanted {wanted}"


def _introduction(rounds: int) -> str:
    return f"""## Pools

`python -m benchmarks.pools --rounds {rounds} --write`, on {machine_facts()}.

One layer on the CPU, random slots, a new set at every call. sglang's pools answer the same calls in
the same process, on one thread and their torch path; the other one needs a device. Ours also refuse
locations past the end and drop those of 0 and below, which sglang's do not look at, and saturate
fp8. Demanded: as fast in every row, for which {AS_FAST} is enough: by so much the same call differs
from run to run. Ratios are medians over interleaved rounds of one run, of the thread's own time.

Most of a small write is the fixed cost of a call, a few microseconds of Python: ours looks at
every location before it writes, once for keys and values. Rows are copied on one thread however
many torch is given, and without numpy by torch, which is slower.

Not compared: reads and writes of latent parts and index keys, for which sglang has Triton kernels
only, and host copies of its DSA pool, which wait for a CUDA device."""


def _rows_introduction() -> str:
    return """Rows by themselves, in a buffer of 1e6 of them. The bar for storing and gathering is a
C loop of one `memcpy` a row, compiled first; for gathering both sides allocate what they return.
Indexing by torch is the bar for moving."""


if __name__ == "__main__":
    raise SystemExit(main())
