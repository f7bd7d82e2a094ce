"""Pages to the host tier and back, in ratios to a plain memcpy of as many bytes.

python -m benchmarks.host_tier [--rounds N] [--write]

Ends with status 1 where a demanded ratio is missed. Takes about 1 GB of memory.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Iterator
from typing import get_args

import torch

from kvproto.protocols import HostLayout
from kvproto.reference import MHALeaf
from kvproto.transfer import HostCapacity, HostPool

from .interleaved import Samples, interleave, ratio
from .report import machine_facts, markdown_table, print_table, verdict, write_section

__all__ = ["main", "measure"]

AT_LEAST = 0.7
DEMANDED: tuple[HostLayout, ...] = ("layer_first", "page_first_direct")
PAGE_SIZES = (64, 16)
PLACES = ("in a row", "device random", "all random")
"""Pages as fresh allocators give them; after many evictions on the device; and on the host too."""
TOKENS = 512
LAYERS, HEADS, WIDTH = 32, 8, 128
HEADER = ("layout", "page size", "pages", "backup", "restore", "layer by layer", "at least")
Row = tuple[str, ...]
Place = tuple[HostLayout, int, str]


def measure(rounds: int) -> dict[Place, Samples]:
    """Seconds of each round: of `memcpy`, `backup`, `restore` and `layer by layer`."""
    torch.set_num_threads(1)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    found: dict[Place, Samples] = {}
    for page_size in PAGE_SIZES:
        pool = _pool(page_size)
        for layout in get_args(HostLayout):
            pages = TOKENS // page_size
            host = HostPool(pool, layout, HostCapacity(pages, "pages"))
            host.alloc(pages)
            copy = _memcpy(host.nbytes)
            for place in PLACES:
                calls = {"memcpy": copy, **_calls(host, *_pages(place, pages))}
                found[layout, page_size, place] = interleave(calls, rounds)
    return found


def _pages(place: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    row = torch.arange(count)
    match place:
        case "in a row":
            return row + 1, row
        case "device random":
            return torch.randperm(count) + 1, row
        case _:
            return torch.randperm(count) + 1, torch.randperm(count)


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


def _memcpy(nbytes: int) -> Callable[[], None]:
    source, target = (torch.full((nbytes,), value, dtype=torch.uint8) for value in (1, 2))

    def copy() -> None:
        ctypes.memmove(target.data_ptr(), source.data_ptr(), source.nbytes)

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
        speeds = [f"{ratio(found, 'memcpy', call):.2f}" for call in HEADER[3:6]]
        demanded = f"{AT_LEAST}" if _is_demanded(layout, page_size) else "-"
        yield layout, str(page_size), place, *speeds, demanded


def _missed(samples: dict[Place, Samples]) -> Iterator[str]:
    for (layout, page_size, place), found in samples.items():
        for call in ("backup", "restore") if _is_demanded(layout, page_size) else ():
            speed = ratio(found, "memcpy", call)
            if round(speed, 2) < AT_LEAST:
                told = f"{call} of {layout}, pages of {page_size}, {place}"
                yield f"{told}: {speed:.2f} of memcpy, wanted {AT_LEAST}"


def _is_demanded(layout: HostLayout, page_size: int) -> bool:
    return layout in DEMANDED and page_size == max(PAGE_SIZES)


def _introduction(rounds: int) -> str:
    large = max(PAGE_SIZES)
    return f"""## Host tier

`python -m benchmarks.host_tier --rounds {rounds} --write`, on {machine_facts()}.

{TOKENS} tokens of a leaf of {LAYERS} layers, {HEADS} heads of {WIDTH}, bf16, with both ends in
plain host memory. Pages lie in a row, as fresh allocators give them, are random on the device, or
random at both ends. The bar is one `memcpy` of as many bytes between two buffers; it would be
faster still for several times as many, which C libraries copy past the caches, and no page is so
large. Demanded is {AT_LEAST} of it for backup and restore, in {" and ".join(DEMANDED)} with pages
of {large}. Rows below {AT_LEAST} that nothing is demanded of miss it because each run of bytes is a
copy of its own: in `page_first` the layers of a token are side by side, and pages of
{min(PAGE_SIZES)} are a quarter as long, and hardly two of them follow each other at random
places. Ratios are medians over interleaved rounds of one run, of the thread's own time, on
one thread. In `page_first` a page of {large}
tokens is as many runs of 2 KiB in each layer. On a device a Triton kernel copies
all layers in one launch; that was not measured here."""


if __name__ == "__main__":
    raise SystemExit(main())
