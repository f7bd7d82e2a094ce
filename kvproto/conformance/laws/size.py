"""Bytes a pool says it takes."""

from __future__ import annotations

from typing import Any

from kvproto.protocols import (
    DSALeafRequest,
    KVLeaf,
    MHALeafRequest,
    MLALeafRequest,
    SizeReporting,
    SparseIndexLeafRequest,
    bytes_of_pool,
)

from ..broken import LawBroken
from ..kv_bench import KVBench
from ..law import law
from ..storage import owned_bytes
from .facts import size_parts


def is_planned(request: Any, /) -> bool:
    """For leaves that plans of deployments ask for."""
    kinds = (MHALeafRequest, MLALeafRequest, DSALeafRequest, SparseIndexLeafRequest)
    return isinstance(request, kinds)


@law(
    "size.predicted",
    KVLeaf,
    applies=is_planned,
    check="allocate `size + page_size` slots and nothing that the request does not ask for",
)
def size_predicted(bench: KVBench) -> None:
    """The bytes allocated are those that a plan counts for the request."""
    bench.expect(
        f"bytes of the pool for {type(bench.request).__name__}",
        expected=bytes_of_pool(bench.request),
        got=owned_bytes(bench.pool, bench.slots),
    )


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
