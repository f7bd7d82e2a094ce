"""From shape, options, ranks and memory to a plan: a pure function, no tensor and no device."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from kvproto.protocols import (
    DSALeafRequest,
    LeafRequest,
    MLALeafRequest,
    PlatformCapabilities,
    StatePoolRequest,
    SubsystemRequest,
    bytes_of_pool,
    bytes_of_state,
    bytes_per_state_slot,
    bytes_per_token,
)

from .assemble import allocator_request, pool_request, request_pool_request
from .budget import MemoryBudget
from .compressed_plan import compressed_plan
from .concurrency import concurrency
from .context import context_len
from .device_subset import ids_per_row
from .drafts import DraftRequests, draft_requests
from .in_tree import CPU
from .leaves import LeafRequests, leaf_requests
from .ledger import shares_of
from .options import ServingOptions
from .page_shards import ranks_of_pages
from .parallel import ParallelLayout
from .plan_error import PlanError
from .pool_plan import DraftWindows, PoolPlan
from .pooled_keys import key_bytes, qsa_request, ring_bytes
from .refusals import refuse
from .shape import ModelShape
from .stage import Stage
from .state_budget import StateSizes, check_state_fits, slots_per_request, state_sizes
from .token_budget import TokenCosts, Tokens, aligned, fit_beside, fit_tokens, with_ratio
from .unified import UnifiedParts, unified_costs, unified_request
from .window_demand import window_demand
from .window_ring import fit_beside_rings, window_rings

__all__ = ["plan"]


def plan(
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
    budget: MemoryBudget,
    *,
    platform: PlatformCapabilities = CPU,
    pp_rank: int = 0,
    draft_shape: ModelShape | None = None,
) -> PoolPlan:
    """What one pipeline stage builds in its memory.

    `draft_shape` is what predicts tokens ahead where that is a model of its own; the draft that
    `options.speculative` asks for is one of the model's own layers without it.

    Every stage has the tokens of the one that fits the fewest, so the plans of all stages agree
    without asking each other; each has the same budget.

    :raises PlanError: for options that cannot be served together, for a stage that is none, and for
        too little memory.
    """
    layer_num = len(shape.layers)
    parallel.stage(pp_rank, layer_num)
    refuse(shape, options, parallel, platform)
    if shape.compressed is not None:
        return compressed_plan(shape, options, parallel, budget, platform, pp_rank)
    stages = [
        _Stage.of(shape, draft_shape, parallel.stage(rank, layer_num), options, parallel, platform)
        for rank in range(parallel.pp_size)
    ]
    state = _common_state(stages, budget.cache_bytes, options, parallel)
    tokens = _fewest(
        [stage.tokens(budget.cache_bytes, state, shape, options, parallel) for stage in stages],
        shape,
        options,
        _requests(state, options, parallel),
        window_demand(options, parallel, shape.window) if shape.window else None,
    )
    return _planned(stages[pp_rank], shape, options, parallel, budget, tokens, state)


@dataclass(frozen=True, slots=True)
class _Stage:
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
    ) -> _Stage:
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
        page_size=options.page_size,
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


def _common_state(
    stages: list[_Stage], cache_bytes: int, options: ServingOptions, parallel: ParallelLayout
) -> StateSizes | None:
    """The slots that every stage has: those of the stage whose slots are the largest."""
    dearest = max(stages, key=lambda stage: stage.slot_bytes)
    if dearest.leaves.state is None:
        return None
    drafted = dearest.leaves.state.speculative_num_draft_tokens or 0
    costs = [stage.costs for stage in stages]
    rows_cost = any(each.full or each.window or each.draft for each in costs)
    sizes = state_sizes(
        cache_bytes, dearest.slot_bytes, options, parallel, drafted, rows_cost=rows_cost
    )
    check_state_fits(sizes.asked(dearest.leaves.state), cache_bytes, options)
    return sizes


def _requests(state: StateSizes | None, options: ServingOptions, parallel: ParallelLayout) -> int:
    """Requests whose contexts there must be tokens for, where tokens cost nothing."""
    if state is not None:
        return state.slots // slots_per_request(options)
    return parallel.requests_of_group(options.max_running_requests) or 1


def _fewest(
    fitting: list[Tokens | None],
    shape: ModelShape,
    options: ServingOptions,
    requests: int,
    demand: int | None,
) -> Tokens:
    """The tokens of the stage that fits the fewest, within what the options allow.

    Where tokens cost nothing on any stage, there are enough for the longest context of every
    request.

    :raises PlanError: where that is not one page, or the window pool holds no request.
    """
    stated = [tokens for tokens in fitting if tokens is not None]
    enough = options.max_total_tokens or context_len(shape, options) * requests
    free = Tokens(aligned(enough, options.page_size), 0)
    fewest = min(stated, key=lambda tokens: tokens.capacity) if stated else free
    cap = options.max_total_tokens
    if cap is not None and cap < fewest.capacity:
        fewest = _capped(fewest, cap, options, demand)
    if not fewest.capacity:
        raise PlanError(
            "cache_bytes",
            fewest.capacity,
            f"not one page of {options.page_size} tokens fits",
            "give the caches more memory, or store them in a smaller type",
        )
    _check_window(fewest, shape, options)
    return fewest


def _capped(tokens: Tokens, cap: int, options: ServingOptions, demand: int | None) -> Tokens:
    full = aligned(cap, options.page_size)
    if not tokens.full:
        return Tokens(0, full)
    if demand is not None:
        return Tokens(full, min(tokens.window, full))
    ratio = Fraction(str(options.swa_full_tokens_ratio)) if tokens.window else Fraction(0)
    return with_ratio(full, ratio, options.page_size)


def _check_window(tokens: Tokens, shape: ModelShape, options: ServingOptions) -> None:
    if not tokens.full or not tokens.window or shape.window is None:
        return
    least = shape.window + options.page_size
    if tokens.window <= least:
        raise PlanError(
            "swa_full_tokens_ratio",
            options.swa_full_tokens_ratio,
            f"a request needs more than {least} window tokens, the pool would have {tokens.window}",
            "raise it, or give the caches more memory",
        )


def _planned(
    stage: _Stage,
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
    budget: MemoryBudget,
    tokens: Tokens,
    state: StateSizes | None,
) -> PoolPlan:
    leaves = stage.leaves
    planned_state = stage.state(state)
    running = concurrency(
        options,
        parallel,
        tokens.capacity * parallel.dcp_size * ranks_of_pages(options, parallel),
        context_len(shape, options),
        None if state is None else state.slots,
    )
    drafts = stage.draft
    rings = window_rings(shape, options, parallel)
    if rings is not None:
        rings = rings.for_requests(running.max_running_requests, options)
        tokens = replace(tokens, window=rings.lent)
    table = request_pool_request(
        running, options, context_len(shape, options), planned_state, stage.stage.layers.start
    )
    draft = (
        None if drafts is None else drafts.sized(tokens, parallel.dcp_size * ids_per_row(options))
    )
    pool = pool_request(stage.stage, leaves, planned_state, tokens, rings, options)
    allocator = allocator_request(tokens, table, rings, options, parallel)
    windows: DraftWindows = "none" if drafts is None else drafts.windows
    subsystem: SubsystemRequest | None = qsa_request(shape, pool, allocator, table)
    if options.pool_memory == "unified":
        whole = options.max_total_tokens is None and parallel.pp_size == 1
        parts = UnifiedParts(pool, planned_state, allocator, table, draft, windows)
        subsystem = unified_request(parts, budget.cache_bytes if whole else None)
    return PoolPlan(
        model_type=shape.model_type,
        layers=(stage.stage.layers.start, stage.stage.layers.stop),
        cache_bytes=budget.cache_bytes,
        bytes_per_token=_bytes_per_token(stage.costs, options),
        tokens=tokens,
        pool=pool,
        state=planned_state,
        draft=draft,
        draft_windows=windows,
        allocator=allocator,
        request_pool=table,
        subsystem=subsystem,
        concurrency=running,
        shares=shares_of(pool, planned_state, draft, budget.cache_bytes, subsystem),
    )


def _bytes_per_token(costs: TokenCosts, options: ServingOptions) -> int:
    draft = costs.draft * costs.draft_scale
    if options.rows == "none":
        return 0
    window = 0 if options.window_storage == "ring" else costs.window
    ratio = Fraction(str(options.swa_full_tokens_ratio)) if costs.paired else Fraction(1)
    return ceil(costs.full + draft + ratio * window)
