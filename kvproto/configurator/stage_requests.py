"""What a pipeline stage asks for before tokens are counted, and what each of them costs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvproto.protocols import (
    DSALeafRequest,
    LeafRequest,
    MLALeafRequest,
    PlatformCapabilities,
    StatePoolRequest,
    bytes_of_pool,
    bytes_of_state,
    bytes_per_state_slot,
    bytes_per_token,
)

from .device_subset import ids_per_row
from .drafts import DraftRequests, draft_requests
from .leaves import LeafRequests, leaf_requests
from .options import ServingOptions
from .parallel import ParallelLayout
from .pooled_keys import key_bytes, ring_bytes
from .shape import ModelShape
from .stage import Stage
from .state_budget import StateSizes
from .token_budget import TokenCosts, Tokens, fit_beside, fit_tokens
from .unified import unified_costs
from .window_demand import window_demand
from .window_ring import fit_beside_rings, window_rings

__all__ = ["StageRequests"]


@dataclass(frozen=True, slots=True)
class StageRequests:
    """One stage's layers, the requests for them, and what they cost."""

    stage: Stage
    leaves: LeafRequests
    draft: DraftRequests | None
    costs: TokenCosts
    slot_bytes: int

    @classmethod
    def of(
        cls,
        shape: ModelShape,
        draft_shape: ModelShape | None,
        layers: range,
        options: ServingOptions,
        parallel: ParallelLayout,
        platform: PlatformCapabilities,
    ) -> StageRequests:
        stage = Stage.of(shape, layers, options)
        leaves = leaf_requests(shape, stage, options, parallel, platform)
        last = layers.stop == len(shape.layers)
        draft = draft_requests(shape, draft_shape, options, parallel, platform, last=last)
        whole = Stage.of(shape, range(len(shape.layers)), options)
        paired = bool(whole.full and whole.window)
        costs = replace(_costs(leaves, draft, options, parallel), paired=paired)
        costs = replace(
            costs,
            full=costs.full + key_bytes(shape, leaves.full),
            fixed=costs.fixed + ring_bytes(shape, leaves.full, options, parallel),
        )
        slot_bytes = 0 if leaves.state is None else bytes_per_state_slot(leaves.state)
        return cls(stage, leaves, draft, costs, slot_bytes)

    def state(self, sizes: StateSizes | None) -> StatePoolRequest | None:
        """The stage's state in these sizes; None for a stage that keeps none."""
        if self.leaves.state is None or sizes is None:
            return None
        return sizes.asked(self.leaves.state)

    def tokens(
        self,
        cache_bytes: int,
        state: StateSizes | None,
        shape: ModelShape,
        options: ServingOptions,
        parallel: ParallelLayout,
    ) -> Tokens | None:
        """What fits beside the state; None for a stage whose tokens cost nothing."""
        asked = self.state(state)
        left = cache_bytes - (0 if asked is None else bytes_of_state(asked))
        if options.rows == "none":
            return None
        rings = window_rings(shape, options, parallel)
        if rings is not None:
            return fit_beside_rings(left, self.costs, rings, options)
        demand = window_demand(options, parallel, shape.window) if shape.window else None
        if demand is not None and self.costs.paired:
            return fit_beside(left, self.costs, demand)
        return fit_tokens(left, self.costs, options.swa_full_tokens_ratio)


def _costs(
    leaves: LeafRequests,
    draft: DraftRequests | None,
    options: ServingOptions,
    parallel: ParallelLayout,
) -> TokenCosts:
    if options.pool_memory == "unified":
        return unified_costs(leaves, draft, options)
    full = None if draft is None else draft.full
    window = None if draft is None else draft.window
    shared = draft is not None and draft.windows == "shared"
    return TokenCosts(
        full=_cost(leaves.full),
        window=_cost(leaves.window) + (_cost(window) if shared else 0),
        draft=_cost(full) + (0 if shared else _cost(window)),
        page_size=options.page,
        draft_scale=parallel.dcp_size * ids_per_row(options),
        fixed=_fixed(leaves.full) + _fixed(full),
    )


def _cost(request: LeafRequest | None) -> int:
    return 0 if request is None else bytes_per_token(request)


def _fixed(request: LeafRequest | None) -> int:
    """Bytes that a leaf has for requests or batches, however many tokens there are."""
    match request:
        case DSALeafRequest():
            without = replace(request, index_kpool_compress=False, page_shards=None)
            return bytes_of_pool(request) - bytes_of_pool(without)
        case MLALeafRequest():
            return bytes_of_pool(request) - bytes_of_pool(replace(request, page_shards=None))
        case _:
            return 0
