"""One byte buffer for every pool: what a slot of each kind costs there, and the request."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvproto.protocols import (
    AllocatorRequest,
    HybridPoolRequest,
    LeafRequest,
    MHALeafRequest,
    PoolRequest,
    StatePoolRequest,
    SWAAllocatorRequest,
    SWAPoolRequest,
    UnifiedBufferRequest,
    bytes_of_state,
    bytes_per_state_slot,
    unified_entry_bytes,
)

from .drafts import DraftRequests
from .leaves import LeafRequests
from .options import ServingOptions
from .plan_error import PlanError
from .pool_plan import DraftWindows, PlannedAllocator, PlannedPool, PlannedTable
from .token_budget import TokenCosts

__all__ = ["UnifiedParts", "unified_costs", "unified_request"]

_GRAIN = 4096
"""Bytes of which the buffer is a multiple, so that it can be viewed as any element type."""


def unified_costs(
    leaves: LeafRequests, draft: DraftRequests | None, options: ServingOptions
) -> TokenCosts:
    """What a slot takes of the buffer, rows of the draft in it and padding included.

    :raises PlanError: for rows of a draft that do not lie in entries of rows.
    """
    full = window = None
    if draft is not None:
        full, window = _fusable(draft.full), _fusable(draft.window)
    shared = draft is not None and draft.windows == "shared"
    return TokenCosts(
        full=_entry(leaves.full, full, None if shared else window),
        window=_entry(leaves.window, window if shared else None),
        draft=0,
        page_size=options.page,
        fixed=_GRAIN,
    )


def _entry(host: LeafRequest | None, *drafts: LeafRequest | None) -> int:
    return 0 if host is None else unified_entry_bytes(host, *drafts)


def _fusable(leaf: LeafRequest | None) -> LeafRequest | None:
    if leaf is None or isinstance(leaf, MHALeafRequest):
        return leaf
    raise PlanError(
        "draft_rows", "fused", "only rows by head lie beside the model's", "use another draft"
    )


@dataclass(frozen=True, slots=True)
class UnifiedParts:
    """What the buffer is to hold, each part as it would be asked for alone."""

    pool: PlannedPool | None
    state: StatePoolRequest | None
    allocator: PlannedAllocator
    table: PlannedTable
    draft: PoolRequest | None
    windows: DraftWindows


def unified_request(parts: UnifiedParts, cache_bytes: int | None) -> UnifiedBufferRequest:
    """The buffer of these parts: of all bytes but scratch where a budget is given, else of as many
    as they take at first.
    """
    pool, allocator, state = parts.pool, parts.allocator, parts.state
    assert isinstance(pool, SWAPoolRequest | HybridPoolRequest), "refuse_unified lets no other pass"
    assert isinstance(allocator, AllocatorRequest | SWAAllocatorRequest)
    least = UnifiedBufferRequest(
        total_bytes=1 << 62,
        pool=pool,
        state=state if isinstance(pool, SWAPoolRequest) else None,
        allocator=allocator,
        request_pool=parts.table,
        draft=parts.draft,
        draft_windows_shared=parts.windows == "shared",
    )
    if cache_bytes is None:
        total = -(-least.boot_bytes // _GRAIN) * _GRAIN
    else:
        total = (cache_bytes - _scratch(state)) // _GRAIN * _GRAIN
    return replace(least, total_bytes=total)


def _scratch(state: StatePoolRequest | None) -> int:
    """Bytes of the states of draft tokens, which lie beside the buffer."""
    if state is None:
        return 0
    return bytes_of_state(state) - (state.size + 1) * bytes_per_state_slot(state)
