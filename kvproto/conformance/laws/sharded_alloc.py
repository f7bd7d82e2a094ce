"""Pages that ranks keep in turn: whose they are, and what the class with the fewest allows."""

from __future__ import annotations

from kvproto.protocols import ShardedAllocator

from ..law import law
from ..sharded_bench import ShardedBench
from .alloc import ACCOUNTS


@law(
    "sharded-alloc.cyclic",
    ShardedAllocator,
    needs=ACCOUNTS,
    check="page i is of class (start_class + i) % shard_size, start_class taken modulo too",
)
def cyclic(bench: ShardedBench) -> None:
    """A chain's pages go round the classes from the one asked for, any number standing for one."""
    ranks, size = bench.ranks, bench.page_size
    bench.expect("shard_size", expected=ranks, got=bench.pool.shard_size)
    rows: list[list[int]] = []
    for start, pages in ((0, 1), (1, ranks + 1), (ranks + 1, 2), (-1, ranks), (0, 0)):
        row = bench.take_cyclic(start, pages * size)
        call = f"alloc_cyclic({start}, {pages * size})"
        classes = [slot // size % ranks for slot in row[::size]]
        told = [(start + turn) % ranks for turn in range(pages)]
        bench.expect(f"{call}; classes of its pages", expected=told, got=classes)
        bench.expect_continues(call, [], row)
        rows.append(row)
        bench.expect_owned(call, *rows)
    bench.expect_only_owned("after alloc_cyclic", *rows)


@law(
    "sharded-alloc.floor",
    ShardedAllocator,
    needs=(*ACCOUNTS, "sharded-alloc.cyclic"),
    check="shard_size times the fewest free pages of a class; a freed page goes to its own class",
)
def floor(bench: ShardedBench) -> None:
    """What is available can be had from any class on; a freed page is free for its class alone."""
    ranks, size = bench.ranks, bench.page_size
    each = bench.asked.size_per_rank // size
    lone = [bench.take_cyclic(ranks - 1, size) for _ in range(each)]
    last = lone[0][0] // size % ranks
    left = [each if owner != last else 0 for owner in range(ranks)]
    call = f"all pages of class {last} owned"
    bench.expect(f"{call}; class_free_page_counts()", expected=left, got=[*bench.room()])
    bench.expect(f"{call}; available_size()", expected=0, got=bench.pool.available_size())
    bench.expect(f"{call}; alloc_cyclic", expected=None, got=bench.cyclic(0, ranks * size))
    bench.free(lone[0] + lone[1])
    available = bench.pool.available_size()
    bench.expect("available_size(), two of them freed", expected=2 * ranks * size, got=available)
    for start in range(ranks):
        row = bench.take_cyclic(start, available)
        bench.expect("available_size(), that taken", expected=0, got=bench.pool.available_size())
        bench.free(row)
    bench.expect_only_owned("freed again", *lone[2:])
