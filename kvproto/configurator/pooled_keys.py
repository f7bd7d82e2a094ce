"""Index keys beside rows by head that stand for several tokens each."""

from __future__ import annotations

from kvproto.protocols import (
    AllocatorRequest,
    HybridPoolRequest,
    LeafRequest,
    QSAPoolRequest,
    StateRequestPoolRequest,
)

from .elements import planned_dtype
from .geometry import IndexGeometry
from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .pool_plan import PlannedAllocator, PlannedPool, PlannedTable
from .shape import ModelShape

__all__ = ["key_bytes", "pooled_index", "qsa_request", "ring_bytes"]

_RING_BYTES = 2
"""Of an element of a raw key, which waits in bf16."""


def pooled_index(shape: ModelShape) -> IndexGeometry | None:
    """The index of a model with such keys."""
    index = shape.index
    return index if index is not None and index.scheme == "pooled_rows" else None


def key_bytes(shape: ModelShape, rows: LeafRequest | None) -> int:
    """A token's part of the keys in all layers of the rows, rounded up."""
    index = pooled_index(shape)
    if index is None or rows is None:
        return 0
    return -(-rows.layer_num * index.head_dim * _RING_BYTES // index.kpool)


def ring_bytes(
    shape: ModelShape, rows: LeafRequest | None, options: ServingOptions, parallel: ParallelLayout
) -> int:
    """Bytes of rings for the most requests there may be.

    :raises PlanError: where nobody says how many, and for groups that cross a page.
    """
    index = pooled_index(shape)
    if index is None or rows is None:
        return 0
    if options.page % index.kpool:
        raise PlanError(
            "page_size",
            options.page,
            f"{index.kpool} tokens share an index key, which must not cross a page",
            f"give a multiple of {index.kpool}",
        )
    running = parallel.requests_of_group(options.max_running_requests)
    if running is None:
        raise PlanError(
            "max_running_requests",
            None,
            "each request has a ring of raw index keys, whose bytes come before any token's",
            "state a number",
        )
    slots = running + options.rows_to_come + 1
    return rows.layer_num * slots * index.kpool * index.head_dim * _RING_BYTES


def qsa_request(
    shape: ModelShape, pool: PlannedPool | None, allocator: PlannedAllocator, table: PlannedTable
) -> QSAPoolRequest | None:
    """The rows with their keys; None where there are none of such."""
    index = pooled_index(shape)
    if index is None or pool is None:
        return None
    rows = table.rows if isinstance(table, StateRequestPoolRequest) else table
    assert isinstance(pool, HybridPoolRequest | LeafRequest), "keys are beside rows by head"
    assert isinstance(allocator, AllocatorRequest)
    return QSAPoolRequest(
        pool=pool,
        qsa_index_head_dim=index.head_dim,
        qsa_compress_ratio=index.kpool,
        num_request_slots=rows.size + rows.pre_alloc_size + 1,
        index_dtype=planned_dtype("bfloat16"),
        allocator=allocator,
        request_pool=table,
    )
