"""Bytes a pool says it takes."""

from __future__ import annotations

from kvproto.protocols import KVLeaf, SizeReporting

from ..bench import Bench
from ..law import LawBroken, law
from ..storage import owned_bytes


@law(
    "size.bytes",
    SizeReporting,
    KVLeaf,
    check="a pair of key and value bytes, padding page included, by the storage's element size",
)
def size_bytes(bench: Bench) -> None:
    """The reported size is a pair of key and value bytes that add up to what is allocated."""
    reported: object = bench.pool.get_kv_size_bytes()
    owned = owned_bytes(bench.pool, bench.slots)
    match reported:
        case (int(keys), int(values)) if keys + values == owned:
            return
        case _:
            expected = f"a pair that adds up to {owned}"
            raise LawBroken("get_kv_size_bytes()", expected=expected, got=str(reported))
