"""Bytes a pool says it takes."""

from __future__ import annotations

from operator import index
from typing import cast

from kvproto.protocols import KVLeaf, SizeReporting

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import law
from ..storage import owned_bytes


@law(
    "size.bytes",
    SizeReporting,
    KVLeaf,
    check="count the reserved page, scales and index rows; use the storage's element size",
)
def size_bytes(bench: KVBench) -> None:
    """The reported bytes are those allocated: a pair, or one number for latent rows."""
    reported: object = bench.pool.get_kv_size_bytes()
    owned = owned_bytes(bench.pool, bench.slots)
    parts = cast("tuple[int, ...]", reported if isinstance(reported, tuple) else (reported,))
    if len(parts) not in (1, 2) or sum(map(index, parts)) != owned:
        raise LawBroken(
            "get_kv_size_bytes()",
            expected=f"a number, or a pair of key and value bytes, that makes {owned}",
            got=f"{parts}",
        )
