"""A plan: what is to be built, how large, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kvproto.protocols import (
    AllocatorRequest,
    HiSparseAllocatorRequest,
    NoOpLeafRequest,
    PoolRequest,
    PureSWAAllocatorRequest,
    RequestPoolRequest,
    ShardedAllocatorRequest,
    StatePoolRequest,
    StateRequestPoolRequest,
    SubsystemRequest,
    SWAAllocatorRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
)

from .concurrency import Concurrency
from .ledger import Share
from .token_budget import Tokens

__all__ = ["DraftWindows", "PlannedAllocator", "PlannedPool", "PlannedTable", "PoolPlan"]

PlannedPool: TypeAlias = PoolRequest | SWARingPoolRequest | NoOpLeafRequest
"""A leaf or a composite, a full leaf beside rings, or what stands for rows that nobody keeps."""

PlannedAllocator: TypeAlias = (
    AllocatorRequest
    | SWAAllocatorRequest
    | PureSWAAllocatorRequest
    | SWARingAllocatorRequest
    | HiSparseAllocatorRequest
    | ShardedAllocatorRequest
)
"""One space of slots, a full space with a window space beside it, a window space alone, a full
space whose requests have rings, a space of ids over fewer slots of the device, or pages
that ranks keep in turn."""

PlannedTable: TypeAlias = RequestPoolRequest | StateRequestPoolRequest
"""Rows of token slots, with a slot of state to each where layers recur."""


DraftWindows = Literal["none", "shared", "own"]
"""Where rows of a draft's windowed layers are: in no slots, in those that the allocator gives the
model's windows, or each at the number of its location (`own`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What one pipeline stage of a model builds on one device; pure data.

    `layers` are the stage's global ids, from the first to one past the last. `context_len` is the
    longest context that is served, in tokens. `pool` is None for
    a stage whose layers keep nothing. `state` is the recurrent state, which the rows of
    `request_pool` have slots of, and which is a part of `pool` unless that is a window pair.
    `draft` is the pool of the layers that predict ahead, a leaf or a window pair: it spans every
    location, as the allocator numbers them, and needs no allocator of its own. `draft_windows`
    says which window slot goes with a location. `subsystem` is what a platform builds as a whole:
    one buffer that all of these share, or a pool of compressed rows in place of `pool`; None else.
    `shares` add up to `cache_bytes`. `bytes_per_token` counts a full token with the window and
    draft tokens that go with it, rounded up; 0 where only a builder knows.
    """

    model_type: str
    layers: tuple[int, int]
    context_len: int
    cache_bytes: int
    bytes_per_token: int
    tokens: Tokens
    pool: PlannedPool | None
    state: StatePoolRequest | None
    draft: PoolRequest | None
    draft_windows: DraftWindows
    allocator: PlannedAllocator
    request_pool: PlannedTable
    subsystem: SubsystemRequest | None
    concurrency: Concurrency
    shares: tuple[Share, ...]

    @property
    def allocated_bytes(self) -> int:
        """Bytes that the pools take; the request table, on top, is not a cache."""
        return sum(share.bytes for share in self.shares if share.part != "unused")
