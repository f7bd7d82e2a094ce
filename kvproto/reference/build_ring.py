"""Pools and accounts of window layers with a ring per request, for their requests."""

from __future__ import annotations

from functools import partial

from kvproto.debug import maybe_validate
from kvproto.protocols import (
    Declined,
    RequestPool,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
)

from .build import build_reference_leaf
from .build_allocator import BuildAllocator, build_rows, build_single
from .build_composite import BuildLeaf
from .swa_ring import SWARingPool, swa_ring_pool
from .swa_ring_allocator import SWARingAllocator

__all__ = ["build_ring_allocator", "build_ring_pool"]


def build_ring_pool(
    request: SWARingPoolRequest, /, build_leaf: BuildLeaf = build_reference_leaf
) -> SWARingPool | Declined:
    """The pool that is asked for; its leaves come from `build_leaf`, whose they are.

    A leaf that is declined declines the pool.
    """
    full = build_leaf(request.pair.full)
    if isinstance(full, Declined):
        return Declined(f"the full leaf beside rings: {full.reason}")
    window = build_leaf(request.pair.window)
    if isinstance(window, Declined):
        return Declined(f"the leaf of rings: {window.reason}")
    made = swa_ring_pool(
        full_kv_pool=full,
        swa_kv_pool=window,
        full_attention_layer_ids=request.pair.full_attention_layer_ids,
        swa_attention_layer_ids=request.pair.swa_attention_layer_ids,
        swa_req_ring_size=request.swa_req_ring_size,
    )
    return maybe_validate(made)


def build_ring_allocator(
    request: SWARingAllocatorRequest,
    /,
    req_to_token_pool: RequestPool | None = None,
    kvcache: object = None,
    build_allocator: BuildAllocator | None = None,
) -> SWARingAllocator | Declined:
    """The accounts that are asked for, over this request table, or one built for its rows.

    The full side comes from `build_allocator`, a platform's; from here without one. Where it is
    declined, so is the whole.
    """
    part: BuildAllocator = build_allocator or partial(build_single, kvcache=kvcache)
    full = part(request.full)
    if isinstance(full, Declined):
        return Declined(f"the full side beside rings: {full.reason}")
    return SWARingAllocator(
        full_attn_allocator=full,
        req_to_token_pool=req_to_token_pool or build_rows(request.rows),
        swa_req_ring_size=request.swa_req_ring_size,
        kvcache=kvcache,
    )
