"""Bytes a pool says it takes."""

from __future__ import annotations

from kvproto.protocols import KVLeaf, SizeReporting

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import law
from ..storage import owned_bytes
from .facts import size_parts


@law(
    "size.bytes",
    SizeReporting,
    KVLeaf,
    check="count the reserved page, scales and index rows; use the storage's element size",
)
def size_bytes(bench: KVBench) -> None:
    """The reported bytes are those allocated: a pair, or one number for latent rows."""
    parts = size_parts(bench.pool.get_kv_size_bytes())
    owned = owned_bytes(bench.pool, bench.slots)
    if len(parts) not in (1, 2) or sum(parts) != owned:
        raise LawBroken(
            "get_kv_size_bytes()",
            expected=f"a number, or a pair of key and value bytes, that makes {owned}",
            got=f"{parts}",
        )
