"""How many state slots fit, beside token rows and the scratch of draft tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvproto.protocols import StatePoolRequest, bytes_of_state

from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError

__all__ = ["StateSizes", "check_state_fits", "slots_per_request", "state_sizes"]

_SLOTS_OF_A_CACHED_REQUEST = 3
"""Its own, and two of prefixes that it was made from and that it leaves behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSizes:
    """State slots without the reserved one, and rows of draft scratch, 0 for none."""

    slots: int
    scratch_rows: int

    def asked(self, request: StatePoolRequest) -> StatePoolRequest:
        """A stage's request, for these many."""
        return replace(request, size=self.slots, spec_state_size=self.scratch_rows or None)


def slots_per_request(options: ServingOptions) -> int:
    """State slots that a running request may hold; without a prefix cache, its own alone."""
    if not options.prefix_cache:
        return 1
    match options.state.tracking:
        case "none":
            spare = 0
        case "eager":
            spare = 2 if options.overlap_schedule else 1
        case "lazy":
            spare = 1
    return _SLOTS_OF_A_CACHED_REQUEST + spare


def state_sizes(
    cache_bytes: int,
    slot_bytes: int,
    options: ServingOptions,
    parallel: ParallelLayout,
    draft_tokens: int,
    *,
    rows_cost: bool,
) -> StateSizes:
    """Slots as stated; else one a request where nothing else keeps state; else by memory.

    By memory, slots and scratch together get `ratio / (1 + ratio)` of the bytes, or all of them
    where `rows_cost` says that token rows need none: of K slots, `K / slots_per_request` requests
    run, and each has a row of `draft_tokens` states.

    :raises PlanError: where not one slot fits.
    """
    each = slots_per_request(options)
    per_group = parallel.requests_of_group(options.max_running_requests)
    if options.state.slots is not None:
        slots = options.state.slots // parallel.dp_attention_size
    elif not options.prefix_cache and per_group is not None:
        slots = per_group
    else:
        ratio = options.state.full_memory_ratio
        share = cache_bytes * ratio / (1 + ratio) if rows_cost else cache_bytes
        slots = _by_memory(share, slot_bytes, each, draft_tokens)
    if slots < each:
        groups = parallel.dp_attention_size
        where = f" in each of {groups} attention groups" if groups > 1 else ""
        raise PlanError(
            "full_memory_ratio" if options.state.slots is None else "slots",
            options.state.slots or options.state.full_memory_ratio,
            f"{max(slots, 0)} state slots of {slot_bytes} bytes fit{where}, a request needs {each}",
            "raise it, or give the caches more memory",
        )
    rows = min(per_group, slots // each) if per_group is not None else slots // each
    return StateSizes(slots=slots, scratch_rows=rows if draft_tokens else 0)


def check_state_fits(request: StatePoolRequest, cache_bytes: int, options: ServingOptions) -> None:
    """State by memory fits; slots that were stated, or one for each request, may not.

    :raises PlanError: naming what was stated.
    """
    needed = bytes_of_state(request)
    if needed <= cache_bytes:
        return
    stated = options.state.slots is not None
    raise PlanError(
        "slots" if stated else "max_running_requests",
        options.state.slots if stated else options.max_running_requests,
        f"their state takes {needed} bytes, and caches have {cache_bytes}",
        "lower it, or give the caches more memory",
    )


def _by_memory(share: float, slot_bytes: int, each: int, draft_tokens: int) -> int:
    reserved = slot_bytes * (1 + draft_tokens)
    return int((share - reserved) // (slot_bytes * (1 + draft_tokens / each)))
