"""The pool for a request, composites included, over leaves of whoever builds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kvproto.debug import maybe_validate
from kvproto.protocols import (
    Declined,
    HybridPoolRequest,
    KVLeaf,
    KVPool,
    LeafRequest,
    PoolRequest,
    SWAPoolRequest,
)

from .build import build_reference_leaf
from .hybrid import HybridLinearPool
from .hybrid_parts import hybrid_pool
from .state import RecurrentStatePool
from .swa import SWAPool
from .swa_parts import swa_pool

__all__ = ["BuildLeaf", "build_reference_pool"]

BuildLeaf: TypeAlias = Callable[[LeafRequest], KVLeaf | Declined]
"""A platform's door: a leaf that holds what is asked for, or why there is none."""


def build_reference_pool(
    request: PoolRequest, /, build_leaf: BuildLeaf = build_reference_leaf
) -> KVPool | Declined:
    """The pool that holds what is asked for; its leaves come from `build_leaf`, whose they are.

    A leaf that is declined declines the pool, with the leaf's reason and the side it was for.
    With `KVPROTO_DEBUG=1` in the environment its calls are validated (see `kvproto.debug`).
    """
    made: SWAPool | HybridLinearPool | Declined
    match request:
        case SWAPoolRequest():
            made = _swa(request, build_leaf)
        case HybridPoolRequest():
            made = _hybrid(request, build_leaf)
        case _:
            return build_leaf(request)
    return made if isinstance(made, Declined) else maybe_validate(made)


def _swa(request: SWAPoolRequest, build_leaf: BuildLeaf) -> SWAPool | Declined:
    full = build_leaf(request.full)
    if isinstance(full, Declined):
        return Declined(f"the full leaf of a window pair: {full.reason}")
    window = build_leaf(request.window)
    if isinstance(window, Declined):
        return Declined(f"the window leaf of a window pair: {window.reason}")
    return swa_pool(
        full_kv_pool=full,
        swa_kv_pool=window,
        full_attention_layer_ids=request.full_attention_layer_ids,
        swa_attention_layer_ids=request.swa_attention_layer_ids,
    )


def _hybrid(request: HybridPoolRequest, build_leaf: BuildLeaf) -> HybridLinearPool | Declined:
    full = build_leaf(request.full)
    if isinstance(full, Declined):
        return Declined(f"the attention leaf of a hybrid pool: {full.reason}")
    return hybrid_pool(
        full_kv_pool=full,
        mamba_pool=maybe_validate(RecurrentStatePool(**request.state.keywords())),
        full_attention_layer_ids=request.full_attention_layer_ids,
    )
