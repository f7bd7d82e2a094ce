"""Sized requests: the pool, the allocator of its slots, the table of requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeVar, cast

from kvproto.protocols import (
    AllocatorRequest,
    HiSparseAllocatorRequest,
    HybridPoolRequest,
    LeafRequest,
    MHALeafRequest,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    ShardedAllocatorRequest,
    StatePoolRequest,
    StateRequestPoolRequest,
    SWAAllocatorRequest,
    SWAPoolRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
)

from .concurrency import Concurrency
from .elements import planned_dtype
from .leaves import LeafRequests
from .no_rows import without_rows
from .options import ServingOptions
from .parallel import ParallelLayout
from .pool_plan import PlannedAllocator, PlannedPool, PlannedTable
from .stage import Stage
from .token_budget import Tokens
from .window_ring import WindowRings

__all__ = ["allocator_request", "pool_request", "request_pool_request", "sized"]

_Leaf = TypeVar("_Leaf", bound=LeafRequest)

_SLACK_OF_A_ROW = 4
"""Columns of the request table past the longest context, for tokens written ahead."""


def sized(leaf: _Leaf, tokens: int, page_size: int) -> _Leaf:
    """The leaf with room for these tokens; a leaf that is never written still has one page."""
    return replace(leaf, size=max(tokens, page_size), page_size=page_size)


def pool_request(
    stage: Stage,
    leaves: LeafRequests,
    state: StatePoolRequest | None,
    tokens: Tokens,
    rings: WindowRings | None,
    options: ServingOptions,
) -> PlannedPool | None:
    """A leaf where one kind of layer attends, a composite where several share a pool."""
    page = options.page
    full = None if leaves.full is None else sized(leaves.full, tokens.full, page)
    windows = leaves.window
    if windows is None and full is not None and tokens.full and tokens.window and rings is None:
        windows = _empty(full)  # other stages have windows, and allocators are of the model
    if windows is not None:
        full = full if full is not None else sized(_empty(windows), tokens.capacity, page)
        window = sized(windows, tokens.window, page)
        pair = SWAPoolRequest(
            full=full,
            window=window if rings is None else rings.sized(window),
            full_attention_layer_ids=stage.full,
            swa_attention_layer_ids=stage.window,
        )
        return (
            pair if rings is None else SWARingPoolRequest(pair=pair, swa_req_ring_size=rings.size)
        )
    if full is not None and options.rows == "none":
        return without_rows(full)
    if state is None:
        return full
    return HybridPoolRequest(
        full=full if full is not None else _without_layers(options, tokens),
        state=state,
        full_attention_layer_ids=stage.full,
    )


def _empty(beside: LeafRequest) -> MHALeafRequest:
    """The leaf of a side where no layer is: it numbers slots as the other side does."""
    packed = beside.quant_scheme == "dsa_fp8_packed"
    return MHALeafRequest(
        size=beside.page_size,
        page_size=beside.page_size,
        dtype=beside.dtype,
        quant_scheme="fp8_scaled" if packed else beside.quant_scheme,
        layer_num=0,
        head_num=1,
        head_dim=32,
        device=beside.device,
        enable_memory_saver=beside.enable_memory_saver,
        fallback="core",
    )


def _without_layers(options: ServingOptions, tokens: Tokens) -> MHALeafRequest:
    """The leaf of a stage where no layer attends: it numbers slots and stores nothing."""
    return MHALeafRequest(
        size=max(tokens.full, options.page),
        page_size=options.page,
        dtype=planned_dtype(options.model_dtype),
        layer_num=0,
        head_num=1,
        head_dim=1,
        device=options.device,
        fallback="core",
    )


def allocator_request(
    tokens: Tokens,
    table: PlannedTable,
    rings: WindowRings | None,
    options: ServingOptions,
    parallel: ParallelLayout,
) -> PlannedAllocator:
    """Who owns which slot; ranks that split a request's tokens number them together.

    Rings go with the rows of `table`, so that only full slots are lent beside them.
    """
    # Pages that are sent elsewhere are sent in order, so they are kept in order.
    need_sort = options.role != "unified"
    if tokens.window and rings is None and (tokens.full or options.page > 1):
        return SWAAllocatorRequest(
            size=tokens.capacity,
            size_swa=tokens.window,
            page_size=options.page,
            device=options.device,
            need_sort=need_sort,
            fallback=options.allocator_fallback,
        )
    if tokens.window and options.page == 1 and rings is None:
        return PureSWAAllocatorRequest(
            size_swa=tokens.window,
            device=options.device,
            need_sort=need_sort,
            fallback=options.allocator_fallback,
        )
    if options.host_to_device_ratio is not None:
        return HiSparseAllocatorRequest(
            size=tokens.full,
            page_size=options.page,
            device=options.device,
            need_sort=need_sort,
            host_to_device_ratio=options.host_to_device_ratio,
            fallback=options.allocator_fallback,
        )
    if options.kv_sharding == "pages":
        return ShardedAllocatorRequest(
            size_per_rank=tokens.full,
            page_size=options.page,
            shard_size=parallel.attention_ranks,
            device=options.device,
            need_sort=need_sort,
        )
    scale = parallel.dcp_size
    page_size = options.page * scale
    one = AllocatorRequest(
        kind="token" if page_size == 1 else "paged",
        size=tokens.capacity * scale,
        page_size=page_size,
        device=options.device,
        need_sort=need_sort,
        fallback=options.allocator_fallback,
    )
    if rings is None:
        return one
    rows = table.rows if isinstance(table, StateRequestPoolRequest) else table
    return SWARingAllocatorRequest(full=one, rows=rows, swa_req_ring_size=rings.size)


def request_pool_request(
    running: Concurrency,
    options: ServingOptions,
    context_len: int,
    state: StatePoolRequest | None,
    start_layer: int,
) -> PlannedTable:
    """A row for each running request, and on an instance that decodes, those to come.

    Where layers recur, each row has a slot of the state, and slots for snapshots of it where
    prefixes are kept.
    """
    drafted = 0 if options.speculative is None else options.speculative.draft_tokens
    rows = RequestPoolRequest(
        size=running.max_running_requests,
        max_context_len=context_len + _SLACK_OF_A_ROW + drafted,
        device=options.device,
        pre_alloc_size=options.rows_to_come,
        enable_memory_saver=options.enable_memory_saver,
    )
    if state is None:
        return rows
    positions: Literal[1, 2] = 2 if options.overlap_schedule else 1
    initial = {"none": 0, "eager": positions, "lazy": 1}[options.state.tracking]
    return StateRequestPoolRequest(
        rows=rows,
        state=state,
        mamba_ping_pong_track_buffer_size=positions,
        mamba_initial_tracking_slots=cast("Literal[0, 1, 2]", initial),
        start_layer=start_layer,
    )
