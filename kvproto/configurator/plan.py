"""From shape, options, ranks and memory to a plan: a pure function, no tensor and no device."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import ceil

from kvproto.protocols import PlatformCapabilities, SubsystemRequest

from .assemble import allocator_request, pool_request, request_pool_request
from .budget import MemoryBudget
from .common_sizes import common_state, fewest_tokens
from .compressed_plan import compressed_plan
from .concurrency import concurrency
from .context import context_len
from .device_subset import ids_per_row
from .in_tree import CPU
from .ledger import shares_of
from .options import ServingOptions
from .page_shards import ranks_of_pages
from .parallel import ParallelLayout
from .plan_error import PlanError
from .pool_plan import DraftWindows, PoolPlan
from .pooled_keys import qsa_request
from .refusals import refuse
from .shape import ModelShape
from .stage_requests import StageRequests
from .state_budget import StateSizes
from .token_budget import TokenCosts, Tokens
from .unified import UnifiedParts, unified_request
from .window_ring import window_rings

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
    layers_of = partial(
        parallel.stage, layer_num=len(shape.layers), rows_per_layer=shape.rows_per_layer
    )
    _refuse_parted([layers_of(rank) for rank in (pp_rank, *range(parallel.pp_size))], shape)
    options = options.on(platform)
    refuse(shape, options, parallel, platform)
    if shape.compressed is not None:
        return compressed_plan(shape, options, parallel, budget, platform, pp_rank)
    stages = [
        StageRequests.of(shape, draft_shape, layers_of(rank), options, parallel, platform)
        for rank in range(parallel.pp_size)
    ]
    state = common_state(stages, budget.cache_bytes, options, parallel)
    tokens = fewest_tokens(stages, budget.cache_bytes, state, shape, options, parallel)
    return _planned(stages[pp_rank], shape, options, parallel, budget, tokens, state)


def _refuse_parted(stages: list[range], shape: ModelShape) -> None:
    """Rows that later layers read must be on their stage."""
    if not shape.borrowing_layers:
        return
    first = len(shape.layers) - shape.borrowing_layers
    lenders = {shape.layers[i]: i for i in shape.attending}
    for layers in stages:
        if layers.stop > first and layers.start > min(lenders.values()):
            raise PlanError(
                "pp_size",
                len(stages) - 1,
                f"layers from {first} on read the rows of layers {sorted(lenders.values())}, "
                "which another stage has",
                "give fewer stages, or `pp_layers`",
            )


def _planned(
    stage: StageRequests,
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
        budget.cache_bytes,
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
        context_len=context_len(shape, options),
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
