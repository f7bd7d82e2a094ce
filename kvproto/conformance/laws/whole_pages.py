"""Sizes are whole pages: engines round token counts down once, before they ask for anything."""

from __future__ import annotations

from kvproto.protocols import KVPool, SlotAllocator, SWAComposite, supports

from ..account_bench import AllocBench
from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import law


@law(
    "leaf.whole-pages",
    KVPool,
    check="report the usable slots that were asked for, without the reserved page or a part of it",
)
def pool_sizes(bench: KVBench) -> None:
    """The reported size is whole pages, and of a window pair that of the window too."""
    page_size = bench.pool.page_size
    sizes = {"size": bench.pool.size}
    if supports(bench.pool, SWAComposite):
        sizes["size_swa"] = bench.pool.size_swa
    for name, size in sizes.items():
        _expect_whole(f"pool.{name}", size, page_size)


@law(
    "alloc.whole-pages",
    SlotAllocator,
    check="count free pages, not tokens: a page with one token on it is not free",
)
def available(bench: AllocBench) -> None:
    """What is available is whole pages, also while a request fills a part of one."""
    pool, size = bench.pool, bench.page_size
    _expect_whole("size", pool.size, size)
    _expect_whole("available_size() as built", pool.available_size(), size)
    row = bench.extend([[]], [1]) if bench.paged else bench.alloc(size)
    _expect_whole("available_size(), one token owned", pool.available_size(), size)
    bench.free(row or [])
    _expect_whole("available_size(), all freed", pool.available_size(), size)


def _expect_whole(call: str, got: int, page_size: int) -> None:
    if got % page_size:
        raise LawBroken(call, expected=f"a multiple of page_size={page_size}", got=str(got))
