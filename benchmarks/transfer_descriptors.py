"""How long the descriptors of many pages take, beside a loop that asks a region for each address.

python -m benchmarks.transfer_descriptors [--rounds N] [--write]

Needs no accelerator and no pool: the regions are at addresses of nothing. Ends with status 1 where
a list takes longer than is demanded.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from kvproto.protocols import BufferRegion, Field, row_major
from kvproto.protocols.layout import FieldName
from kvproto.transfer import (
    Descriptors,
    ManifestRegion,
    PoolManifest,
    PoolPart,
    TransferPlan,
    descriptors,
    negotiate,
)

from .interleaved import Samples, interleave, ratio
from .report import machine_facts, markdown_table, print_table, verdict, write_section

__all__ = ["AT_MOST_MS", "CASES", "LAYERS", "PAGES", "listed", "looped", "main", "measure"]

AT_MOST_MS = 20.0
"""Milliseconds that the descriptors of all pages and layers may take."""

PAGES, LAYERS = 10_000, 80
_LOOPED_LAYERS = 2
"""The loop takes so long that it is timed over these, and counted as often as they fit."""

_POOL_PAGES = 100_000
_ROW_BYTES = {"latent": 1152, "key": 2048, "value": 2048}
_PAGE = Path(__file__).parent.parent / "docs" / "transfer.md"
_OURS, _LOOP = "descriptors", "loop"
_RANDOM = np.random.default_rng(0)
Int64s = NDArray[np.int64]
Row = tuple[str, ...]


def _manifest(names: tuple[FieldName, ...], base: int) -> PoolManifest:
    regions = tuple(
        ManifestRegion(space="full", region=_region(name, base + place * (1 << 44)))
        for place, name in enumerate(names)
    )
    part = PoolPart(name="target", page_size=16, traits=None, regions=regions)
    return PoolManifest(owner=f"{base:#x}", pools=(part,))


def _region(name: FieldName, base: int) -> BufferRegion:
    page = 16 * _ROW_BYTES[name]
    axes = row_major("bfloat16", ("token", 16), ("dim", _ROW_BYTES[name] // 2))
    return BufferRegion(
        layer_ids=tuple(range(LAYERS)),
        bases=tuple(base + layer * (_POOL_PAGES + 1) * page for layer in range(LAYERS)),
        page_count=_POOL_PAGES,
        page_size=16,
        bytes_per_page=page,
        fields=(Field(name, "bfloat16", axes),),
    )


def _plan(*names: FieldName) -> TransferPlan:
    return negotiate(_manifest(names, 1 << 45), _manifest(names, 1 << 46))


def _apart() -> Int64s:
    return 1 + _RANDOM.permutation(_POOL_PAGES - 1)[:PAGES]


_ROW = 1 + np.arange(PAGES)
CASES: dict[str, tuple[TransferPlan, Int64s, Int64s]] = {
    "latent rows, random pages": (_plan("latent"), _apart(), _apart()),
    "latent rows, adjacent pages": (_plan("latent"), _ROW, _ROW + 500),
    "keys and values, random pages": (_plan("key", "value"), _apart(), _apart()),
    "keys and values, adjacent pages": (_plan("key", "value"), _ROW, _ROW + 500),
}
"""A plan of 80 layers, and the pages at both ends."""


def listed(case: str) -> Descriptors:
    """As the package makes them."""
    plan, local, remote = CASES[case]
    return descriptors(plan, {"full": (local, remote)})


def looped(case: str, layers: int = LAYERS) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """By a loop over layers and pages, one descriptor for each, nothing joined."""
    plan, *lists = CASES[case]
    pages = list(zip(*(each.tolist() for each in lists), strict=True))
    made: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for pair in plan.pairs:
        here, there = pair.local.region, pair.remote.region
        for layer_id in pair.layer_ids[:layers]:
            for mine, theirs in pages:
                made[0].append((here.page_address(layer_id, mine), here.bytes_per_page))
                made[1].append((there.page_address(layer_id, theirs), there.bytes_per_page))
    return made


def measure(rounds: int) -> dict[str, Samples]:
    """Case -> seconds of each."""
    return {case: interleave(_calls(case), rounds) for case in CASES}


def _calls(case: str) -> dict[str, Callable[[], object]]:
    return {_OURS: partial(listed, case), _LOOP: partial(looped, case, _LOOPED_LAYERS)}


def main() -> int:
    """Print the table; with --write also into docs/transfer.md. 1 where a list takes too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="samples per row")
    parser.add_argument("--write", action="store_true", help="update docs/transfer.md")
    options = parser.parse_args()
    samples = measure(options.rounds)
    (header, rows), missed = _table(samples), _missed(samples)
    print_table(machine_facts(), header, rows)
    print(verdict(missed))
    if options.write:
        body = [_introduction(options.rounds), markdown_table(header, rows), verdict(missed)]
        write_section("transfer_descriptors", "\n\n".join(body), _PAGE)
    return 1 if missed else 0


def _table(samples: dict[str, Samples]) -> tuple[Row, list[Row]]:
    header = ("pages", "descriptors", "ms", "times the loop's speed", "limit, ms")
    return header, [
        (
            case,
            f"{len(listed(case).local):,}",
            f"{median(each[_OURS]) * 1e3:.1f}",
            f"{ratio(each, _LOOP, _OURS) * LAYERS / _LOOPED_LAYERS:.0f}",
            f"{AT_MOST_MS:.0f}",
        )
        for case, each in samples.items()
    ]


def _missed(samples: dict[str, Samples]) -> list[str]:
    taken = {case: median(each[_OURS]) * 1e3 for case, each in samples.items()}
    return [
        f"{case}: {ms:.1f} ms, wanted {AT_MOST_MS}" for case, ms in taken.items() if ms > AT_MOST_MS
    ]


def _introduction(rounds: int) -> str:
    command = f"`python -m benchmarks.transfer_descriptors --rounds {rounds} --write`"
    return f"""{command}, on {machine_facts()}.

Each row lists {PAGES:,} pages in {LAYERS} layers, at both ends. Demanded: at most
{AT_MOST_MS:.0f} ms. The loop asks the regions for the address of each page and joins nothing; it is
timed over {_LOOPED_LAYERS} layers, and counted {LAYERS // _LOOPED_LAYERS} times. Medians over the
rounds of one run, of the thread's own time; only the ratios travel between machines."""


if __name__ == "__main__":
    raise SystemExit(main())
