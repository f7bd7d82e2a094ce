"""How many window slots the most requests can hold live at once."""

from __future__ import annotations

from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape
from .token_budget import Tokens, aligned

__all__ = ["check_window", "window_demand"]


def check_window(
    tokens: Tokens, shape: ModelShape, options: ServingOptions, cache_bytes: int
) -> None:
    """Window slots beside full ones are enough for one request: its window and a page begun.

    :raises PlanError: where they are not, none at all included; it names the bound on tokens or the
        memory where full slots are too few as well, else the ratio.
    """
    least, cap = (shape.window or 0) + options.page, options.max_total_tokens
    if tokens.window > least:
        return
    option, value = "swa_full_tokens_ratio", options.swa_full_tokens_ratio
    change = "raise it, or give the caches more memory"
    if tokens.full <= least:
        option, value = "cache_bytes", cache_bytes
        change = "give the caches more memory, or smaller pages"
        if cap is not None and aligned(cap, options.page) == tokens.full:
            option, value, change = "max_total_tokens", cap, "raise it, or use smaller pages"
    why = f"a request needs more than {least} window tokens, the pool would have {tokens.window}"
    raise PlanError(option, value, why, change)


def window_demand(options: ServingOptions, parallel: ParallelLayout, window: int) -> int | None:
    """Window slots for `max_running_requests`, in whole pages; None where it does not decide.

    It decides when nothing but running requests holds slots: a stated maximum of requests, no
    prefix cache, and prompts that arrive in chunks (or not at all, on an instance that decodes).
    A request holds its window, the tokens written since the last eviction, a page that is not
    whole, and what a decode step may add.
    """
    requests = parallel.requests_of_group(options.max_running_requests)
    chunk = options.chunked_prefill_size
    if requests is None or options.prefix_cache or (options.role != "decode" and not chunk):
        return None
    page = options.page
    speculative = options.speculative
    drafted = 1 if speculative is None else speculative.draft_tokens
    stale = options.window_eviction_interval * drafted
    held = window + stale + page + _added_by_a_step(options)
    total = held * requests
    if options.role == "decode":
        total += (window + page) * options.rows_to_come
    else:
        in_flight = 2 if options.overlap_schedule else 1
        total += in_flight * (chunk or 0) + page
    return aligned(total + page - 1, page)


def _added_by_a_step(options: ServingOptions) -> int:
    speculative, page = options.speculative, options.page
    if speculative is None:
        return page
    branches = speculative.topk * speculative.steps
    if page > 1 and speculative.topk > 1:
        # Every branch may begin in the middle of a page of its own.
        pages = (page - 1 + speculative.steps + page - 1) // page
        branches = pages * page * speculative.topk
    step = max(branches, speculative.draft_tokens)
    # With overlap, the step before is not committed yet.
    return 2 * step if options.overlap_schedule else aligned(step + page - 1, page)
