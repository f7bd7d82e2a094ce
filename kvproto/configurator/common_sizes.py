"""Sizes that all pipeline stages have alike: those of the stage that fits the fewest."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn

from .context import context_len
from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape
from .stage_requests import StageRequests
from .state_budget import StateSizes, check_state_fits, slots_per_request, state_sizes
from .token_budget import Tokens, aligned, with_ratio
from .window_demand import check_window, window_demand

__all__ = ["common_state", "fewest_tokens"]


def common_state(
    stages: Sequence[StageRequests],
    cache_bytes: int,
    options: ServingOptions,
    parallel: ParallelLayout,
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


def _requests_to_hold(
    state: StateSizes | None, options: ServingOptions, parallel: ParallelLayout
) -> int:
    """Requests whose contexts there must be tokens for, where tokens cost nothing."""
    if state is not None:
        return state.slots // slots_per_request(options)
    return parallel.requests_of_group(options.max_running_requests) or 1


def fewest_tokens(
    stages: Sequence[StageRequests],
    cache_bytes: int,
    state: StateSizes | None,
    shape: ModelShape,
    options: ServingOptions,
    parallel: ParallelLayout,
) -> Tokens:
    """The tokens of the stage that fits the fewest, within what the options allow.

    Where tokens cost nothing on any stage, there are enough for the longest context of every
    request.

    :raises PlanError: where that is not one page, or the window pool holds no request.
    """
    fitting = [stage.tokens(cache_bytes, state, shape, options, parallel) for stage in stages]
    stated = [tokens for tokens in fitting if tokens is not None]
    requests = _requests_to_hold(state, options, parallel)
    enough = options.max_total_tokens or context_len(shape, options) * requests
    free = Tokens(aligned(enough, options.page), 0)
    fewest = min(stated, key=lambda tokens: tokens.capacity) if stated else free
    cap = options.max_total_tokens
    if cap is not None and cap < fewest.capacity:
        demand = window_demand(options, parallel, shape.window) if shape.window else None
        fewest = _capped(fewest, cap, options, demand)
    if not fewest.capacity:
        _refuse_no_page(cache_bytes, options)
    if any(stage.costs.paired for stage in stages) and options.window_storage == "paged":
        check_window(fewest, shape, options, cache_bytes)
    return fewest


def _refuse_no_page(cache_bytes: int, options: ServingOptions) -> NoReturn:
    page, cap = options.page, options.max_total_tokens
    if cap is not None and cap < page:
        raise PlanError(
            "max_total_tokens",
            cap,
            f"a page has {page} tokens",
            "give at least one page, or leave it out",
        )
    raise PlanError(
        "cache_bytes",
        cache_bytes,
        f"not one page of {page} tokens fits in {cache_bytes} bytes",
        "give the caches more memory, or store them in a smaller type",
    )


def _capped(tokens: Tokens, cap: int, options: ServingOptions, demand: int | None) -> Tokens:
    full = aligned(cap, options.page)
    if not tokens.full:
        return Tokens(0, full)
    if demand is not None:
        return Tokens(full, min(tokens.window, full))
    ratio = Fraction(str(options.swa_full_tokens_ratio)) if tokens.window else Fraction(0)
    return with_ratio(full, ratio, options.page)
