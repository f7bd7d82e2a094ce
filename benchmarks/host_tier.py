"""Pages to the host tier and back, in ratios to a plain memcpy of as many bytes.

python -m benchmarks.host_tier [--rounds N] [--write]

Ends with status 1 where a demanded ratio is missed. Takes about half a GB of memory.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterator
from typing import get_args

import numpy as np
import torch

from kvproto.protocols import HostLayout
from kvproto.reference import MHALeaf
from kvproto.transfer import HostCapacity, HostPool

from .interleaved import Samples, interleave, ratio
from .report import machine_facts, markdown_table, print_table, verdict, write_section

__all__ = ["main", "measure"]

AT_LEAST = 0.7
PAGE_SIZES = (64, 16)
PLACES = ("in a row", "device random", "all random")
"""Pages as fresh allocators give them; after many evictions on the device; and on the host too."""
TOKENS = 512
LAYERS, HEADS, WIDTH = 32, 8, 128
ROW_BYTES = HEADS * WIDTH * 2
NBYTES = TOKENS * LAYERS * ROW_BYTES * 2
"""Of keys and of values, of all layers."""
CALLS = ("backup", "restore", "layer by layer", "bare pieces")
HEADER = ("layout", "page size", "pages", *CALLS[:3], "piece", "of the same pieces, bare")
Row = tuple[str, ...]
Place = tuple[HostLayout, int, str]


def measure(rounds: int) -> dict[Place, Samples]:
    """Seconds of each round: of `memcpy` and of each of `CALLS`."""
    torch.set_num_threads(1)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    found: dict[Place, Samples] = {}
    for page_size in PAGE_SIZES:
        pool = _pool(page_size)
        for layout in get_args(HostLayout):
            pages = TOKENS // page_size
            host = HostPool(pool, layout, HostCapacity(2 * pages, "pages"))
            host.alloc(2 * pages)
            bars = {"memcpy": _memcpy(), CALLS[3]: _bare(piece_bytes(layout, page_size))}
            for place in PLACES:
                calls = {**bars, **_calls(host, *_pages(place, pages))}
                found[layout, page_size, place] = _both_orders(calls, rounds)
    return found


def piece_bytes(layout: HostLayout, page_size: int) -> int:
    """How much lies together of a layer of a page at both ends."""
    return ROW_BYTES if layout == "page_first" else page_size * ROW_BYTES


def _both_orders(calls: dict[str, Callable[[], None]], rounds: int) -> Samples:
    """Half of the rounds the other way round: who comes first finds other caches."""
    backwards = dict(reversed(calls.items()))
    halves = interleave(calls, rounds - rounds // 2), interleave(backwards, rounds // 2)
    return {name: halves[0][name] + halves[1][name] for name in calls}


def _pages(place: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    row = torch.arange(count)
    match place:
        case "in a row":
            return row + 1, row
        case "device random":
            return torch.randperm(count) + 1, row
        case _:
            return torch.randperm(count) + 1, torch.randperm(2 * count)[:count]


def _pool(page_size: int) -> MHALeaf:
    pool = MHALeaf(
        size=TOKENS,
        page_size=page_size,
        dtype=torch.bfloat16,
        head_num=HEADS,
        head_dim=WIDTH,
        layer_num=LAYERS,
        device="cpu",
    )
    for buffer in (*pool.k_buffer, *pool.v_buffer):
        buffer[page_size:].fill_(1)  # the system gives a page of its own to what is written only
    return pool


def _calls(
    host: HostPool, device_pages: torch.Tensor, host_pages: torch.Tensor
) -> dict[str, Callable[[], None]]:
    def by_layer() -> None:
        runs = host.runs(device_pages, host_pages)
        for layer_id in host.layer_ids:
            host.load_runs(layer_id, runs)

    return {
        "backup": lambda: host.backup(device_pages, host_pages),
        "restore": lambda: host.restore(device_pages, host_pages),
        "layer by layer": by_layer,
    }


def _memcpy() -> Callable[[], None]:
    source, target = (torch.full((NBYTES,), value, dtype=torch.uint8) for value in (1, 2))

    def copy() -> None:
        ctypes.memmove(target.data_ptr(), source.data_ptr(), NBYTES)

    return copy


def _bare(nbytes: int) -> Callable[[], None]:
    """As many bytes in pieces at random places: one call, in which numpy copies each by memcpy."""
    pieces = [np.full(NBYTES, value, dtype=np.uint8).view(f"V{nbytes}") for value in (1, 2)]
    order = torch.randperm(len(pieces[0])).numpy()

    def copy() -> None:
        np.take(pieces[0], order, out=pieces[1], mode="clip")

    return copy


def main() -> int:
    """Print the table; with --write also into docs/benchmarks.md. 1 where a ratio is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="samples per row")
    parser.add_argument("--write", action="store_true", help="update docs/benchmarks.md")
    options = parser.parse_args()
    samples = measure(options.rounds)
    rows, missed = list(_rows(samples)), list(_missed(samples))
    print_table(f"host tier, times the speed of memcpy, {machine_facts()}", HEADER, rows)
    print(verdict(missed))
    if options.write:
        body = [_introduction(options.rounds), markdown_table(HEADER, rows), verdict(missed)]
        write_section("host_tier", "\n\n".join(body))
    return 1 if missed else 0


def _rows(samples: dict[Place, Samples]) -> Iterator[Row]:
    for (layout, page_size, place), found in samples.items():
        *speeds, bare = (f"{ratio(found, 'memcpy', call):.2f}" for call in CALLS)
        piece = f"{piece_bytes(layout, page_size) // 1024} KiB"
        yield layout, str(page_size), place, *speeds, piece, bare


def _missed(samples: dict[Place, Samples]) -> Iterator[str]:
    for (layout, page_size, place), found in samples.items():
        for call in ("backup", "restore"):
            speed = ratio(found, "memcpy", call)
            if round(speed, 2) < AT_LEAST:
                told = f"{call} of {layout}, pages of {page_size}, {place}"
                yield f"{told}: {speed:.2f} of memcpy, wanted {AT_LEAST}"


def _introduction(rounds: int) -> str:
    return f"""## Host tier

`python -m benchmarks.host_tier --rounds {rounds} --write`, on {machine_facts()}.

{TOKENS} tokens of a leaf of {LAYERS} layers, {HEADS} heads of {WIDTH}, bf16, with both ends in
plain host memory. Pages lie in a row, as fresh allocators give them, are random on the device, or
random at both ends, there in a tier of twice as many. The bar is one `memcpy` of as many bytes
between two buffers; it would be faster still for several times as many, which C libraries copy past
the caches, and no page is so large. Demanded is {AT_LEAST} of it for backup and restore, in every
row. "Layer by layer" restores one layer after another, as readers wait for them. A piece is what
lies together at both ends of a layer of a page: in `page_first`, a token's row. "Bare" is one call
of numpy that copies as many bytes in such pieces from random places of a buffer, by a `memcpy`
each, without anything of ours. Ratios are medians over interleaved rounds of one run, half of them
in the other order, of the thread's own time, on one thread. On a device a Triton kernel copies all
layers in one launch; that was not measured here."""


if __name__ == "__main__":
    raise SystemExit(main())
