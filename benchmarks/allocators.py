"""Allocating and freeing, for pools of 1e5 to 1e7 slots, in ratios to sglang's real allocators.

python -m benchmarks.allocators [--rounds N] [--write]

The measurements run in a process of `.interop-venv`, where sglang is; without it only ours are
measured, against themselves. Ends with status 1 where a demanded ratio is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from statistics import median
from typing import Any, Literal, NamedTuple

import torch

from .interleaved import Samples, in_interop_venv, interleave, ratio
from .report import machine_facts, markdown_table, not_compared, print_table, verdict, write_section

__all__ = ["CASES", "main", "measure"]

SIZES = (10**5, 10**6, 10**7)
PAGED_AT_LEAST = 3.0
Pair = Callable[[], object]


def token_64(allocator: Any) -> Pair:
    """64 single slots and back."""
    return lambda: allocator.free(allocator.alloc(64))


def paged_free(allocator: Any) -> Pair:
    """4096 tokens in whole pages, and back as a set."""
    return lambda: allocator.free(allocator.alloc(4096))


def paged_segment(allocator: Any) -> Pair:
    """4096 tokens in whole pages, and back as a segment."""
    return lambda: allocator.free_segment(allocator.alloc(4096), start_pos=0)


def extend_one(allocator: Any) -> Pair:
    """A prefill of one request of 4096 tokens, and back."""
    return _extend(allocator, [0], [4096], [-1])


def extend_batch(allocator: Any) -> Pair:
    """32 requests grow from 100 to 356 tokens each, and what is new goes back."""
    return _extend(allocator, [96] * 32, [352] * 32, [-1] * 32)


def decode_batch(allocator: Any) -> Pair:
    """256 requests take a token, 16 of them a new page; that page goes back."""
    seq = torch.arange(1, 257)
    last = seq + (1 << 20)

    def pair() -> None:
        given = allocator.alloc_decode(seq, seq, last)
        allocator.free(given[::16])

    return pair


def translate(allocator: Any) -> Pair:
    """Window locations of 4096 tokens, which stay."""
    loc = torch.randperm(4096) + 16
    return lambda: allocator.translate_loc_from_full_to_swa(loc)


def _extend(allocator: Any, prefix: list[int], seq: list[int], last: list[int]) -> Pair:
    before, after, where = torch.tensor(prefix), torch.tensor(seq), torch.tensor(last)
    tokens = sum(seq) - sum(prefix)

    def pair() -> None:
        allocator.free(allocator.alloc_extend(before, before, after, after, where, tokens))

    return pair


class Case(NamedTuple):
    """An allocation and the free of it, so that the state returns, in one space or in two."""

    page_size: int
    run: Callable[[Any], Pair]
    spaces: Literal[1, 2] = 1

    @property
    def at_least(self) -> float:
        """How many times as fast as sglang's it has to be."""
        return PAGED_AT_LEAST if self.page_size > 1 and self.spaces == 1 else 1.0


CASES: Mapping[str, Case] = {
    "64 tokens, free": Case(1, token_64),
    "4096 tokens, free": Case(16, paged_free),
    "4096 tokens, free_segment": Case(16, paged_segment),
    "alloc_extend 1 x 4096, free": Case(16, extend_one),
    "alloc_extend 32 x 256, free": Case(16, extend_batch),
    "alloc_decode 256, free 16": Case(16, decode_batch),
    "window pair: 64 tokens, free": Case(1, token_64, 2),
    "window pair: alloc_extend 32 x 256, free": Case(16, extend_batch, 2),
    "window pair: translate 4096": Case(16, translate, 2),
}


def measure(rounds: int, with_sglang: bool) -> dict[str, Samples]:
    """Case -> allocator and size -> seconds of each round; all sizes and sides are interleaved."""
    torch.set_num_threads(1)  # Two threads on two busy cores measure the scheduler.
    found: dict[str, Samples] = {}
    for name, case in CASES.items():
        makers = _makers(case, with_sglang)
        pairs = {
            f"{side} {size:.0e}": case.run(make(size // case.page_size * case.page_size))
            for side, make in makers.items()
            for size in SIZES
        }
        found[name] = interleave(pairs, rounds)
    return found


def _makers(case: Case, with_sglang: bool) -> dict[str, Callable[[int], Any]]:
    from kvproto.reference.paged_allocator import PageAllocator
    from kvproto.reference.swa_allocator import SWAPairAllocator
    from kvproto.reference.token_allocator import TokenAllocator

    page_size, pair = case.page_size, case.spaces == 2

    def one(size: int) -> PageAllocator | TokenAllocator:
        if page_size == 1:
            return TokenAllocator(size, torch.bfloat16, "cpu", None, need_sort=False)
        return PageAllocator(size, page_size, torch.bfloat16, "cpu", None, need_sort=False)

    def ours(size: int) -> object:
        if not pair:
            return one(size)
        full, window = one(size), one(size)
        return SWAPairAllocator(full_attn_allocator=full, swa_attn_allocator=window, kvcache=None)

    if not with_sglang:
        return {"kvproto": ours}
    script = import_module("tests.interop.allocators")
    if pair:
        return {"sglang": lambda n: script.real_pair(n, n, page_size), "kvproto": ours}
    return {"sglang": lambda n: script.real_single(n, page_size), "kvproto": ours}


def main() -> int:
    """Print the table; with --write also into docs/benchmarks.md. 1 where a ratio is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=31, help="samples per row")
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        json.dump(measure(options.rounds, with_sglang=True), sys.stdout)
        return 0
    found = in_interop_venv("benchmarks.allocators", options.rounds)
    samples = found or measure(options.rounds, with_sglang=False)
    (header, rows), missed = _table(samples), _missed(samples)
    print_table(machine_facts(), header, rows)
    if found is None:
        return not_compared()
    print(verdict(missed))
    if options.write:
        body = [_introduction(options.rounds), markdown_table(header, rows), verdict(missed)]
        write_section("allocators", "\n\n".join(body))
    return 1 if missed else 0


def _table(
    samples: Mapping[str, Samples],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    header = ("pool slots", "allocation and free", "page", "us", "times sglang's speed", "of 1e5")
    rows: list[tuple[str, ...]] = [
        (
            f"{size:.0e}".replace("+0", ""),
            name,
            str(case.page_size),
            f"{median(samples[name][f'kvproto {size:.0e}']) * 1e6:.0f}",
            "" if (faster := _faster(samples[name], size)) is None else f"{faster:.1f}",
            f"{ratio(samples[name], f'kvproto {size:.0e}', f'kvproto {SIZES[0]:.0e}'):.2f}",
        )
        for name, case in CASES.items()
        for size in SIZES
    ]
    return header, rows


def _faster(samples: Samples, size: int) -> float | None:
    real = f"sglang {size:.0e}"
    return ratio(samples, real, f"kvproto {size:.0e}") if real in samples else None


def _missed(samples: Mapping[str, Samples]) -> list[str]:
    """The rows that miss what is demanded, by name."""
    lines: list[str] = []
    for name, case in CASES.items():
        for size in SIZES:
            faster = _faster(samples[name], size)
            if faster is not None and faster < case.at_least:
                wanted = f"wanted {case.at_least:.0f}"
                lines.append(f"{name} at {size:.0e}: {faster:.1f} times, {wanted}")
        growth = ratio(samples[name], f"kvproto {SIZES[-1]:.0e}", f"kvproto {SIZES[0]:.0e}")
        if growth > 2:
            lines.append(f"{name}: 1e7 slots take {growth:.1f} times as long as 1e5, wanted 2")
    return lines


def _introduction(rounds: int) -> str:
    return f"""## Allocators

`python -m benchmarks.allocators --rounds {rounds} --write`, on {machine_facts()}.

Each row allocates and frees what it allocated. sglang's allocator runs the same calls in the same
process, on one thread and its native path; ours also refuses what is not owned, which sglang's
does not look at. Demanded: at least as fast everywhere, {PAGED_AT_LEAST:.0f} times as fast with
pages of one space, and within twice its own time from 1e5 to 1e7 slots. Ratios are medians over
interleaved rounds of one run, of the thread's own time.

At 1e5 slots sglang's list of free pages is 50 KB, and copying it on every free costs little. What
ours spends on `free_segment` there is fixed: the calls, the allocation, and the check that every
page is owned, and once only."""


if __name__ == "__main__":
    raise SystemExit(main())
