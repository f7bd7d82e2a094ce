"""How many requests may run at once, and what decides it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .state_budget import slots_per_request

__all__ = ["Concurrency", "Limit", "concurrency"]

Limit = Literal["max_running_requests", "tokens", "state_slots", "stated_slots", "default"]
"""What holds concurrency down: the option, the tokens, the state slots that memory has or that were
stated, or a default's bounds."""

_DEFAULT_LEAST, _DEFAULT_MOST = 2048, 4096
_TOKENS_A_REQUEST = 2
"""A request needs a slot to be prefilled and one to decode into."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """Requests at once in each of `groups` attention groups, and the limit that was the lowest."""

    max_running_requests: int
    limit: Limit
    groups: int = 1


def concurrency(
    options: ServingOptions,
    parallel: ParallelLayout,
    tokens: int,
    context_len: int,
    state_slots: int | None,
    cache_bytes: int,
) -> Concurrency:
    """The lowest limit decides; of equal ones, the one that is named first.

    Where no maximum is stated, it is 512 requests for each context's worth of tokens, but
    not below 2048 nor above 4096.

    :raises PlanError: where not one request can run.
    """
    limits: dict[Limit, int] = {}
    asked = parallel.requests_of_group(options.max_running_requests)
    if asked is not None:
        limits["max_running_requests"] = asked
    limits["tokens"] = tokens // _TOKENS_A_REQUEST
    if state_slots is not None:
        slots: Limit = "state_slots" if options.state.slots is None else "stated_slots"
        limits[slots] = state_slots // slots_per_request(options)
    if asked is None:
        estimate = int(tokens / context_len * 512)
        limits["default"] = max(min(estimate, _DEFAULT_MOST), _DEFAULT_LEAST)
    limit = min(limits, key=lambda name: limits[name])
    if limits[limit] < 1:
        cap = options.max_total_tokens
        capped = cap is not None and cap < _TOKENS_A_REQUEST
        raise PlanError(
            "max_total_tokens" if capped else "cache_bytes",
            cap if capped else cache_bytes,
            f"{tokens} tokens serve no request, which needs {_TOKENS_A_REQUEST}",
            "raise it" if capped else "give the caches more memory, or a smaller type",
        )
    groups = parallel.dp_attention_size
    return Concurrency(max_running_requests=limits[limit], limit=limit, groups=groups)
