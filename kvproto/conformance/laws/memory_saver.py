"""Buffers that a memory saver can release and bring back."""

from __future__ import annotations

from dataclasses import replace

from kvproto.protocols import Declined, KVLeaf

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import law
from ..saver import recorded_allocations
from ..storage import owned_storages

_TAG = "kv_cache"


@law(
    "memory-saver.region",
    KVLeaf,
    check="allocate in torch_memory_saver.region(tag='kv_cache'), every buffer, nothing else",
)
def region(bench: KVBench) -> None:
    """With the saver on, all the pool's buffers and nothing else are allocated in its region."""
    with recorded_allocations() as recorded:
        pool = bench.build(replace(bench.request, enable_memory_saver=True))
    if isinstance(pool, Declined):
        bench.note = f"the factory declines enable_memory_saver=True: {pool.reason}"
        return
    owned, inside = set(owned_storages(pool, bench.slots)), recorded.within(_TAG)
    for what, found in (
        (f"buffers allocated outside a region tagged {_TAG}", owned - inside),
        (f"other allocations inside a region tagged {_TAG}", inside - owned),
    ):
        if found:
            raise LawBroken(
                f"a pool with enable_memory_saver=True: {what}",
                expected="none",
                got=f"{len(found)}, beside {len(owned & inside)} buffers inside",
            )
