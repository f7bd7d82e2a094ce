"""Windows as a ring of slots per request, which no token pays for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvproto.protocols import LeafRequest

from .options import ServingOptions
from .parallel import ParallelLayout
from .plan_error import PlanError
from .shape import ModelShape
from .token_budget import TokenCosts, Tokens, fit_tokens

__all__ = ["WindowRings", "fit_beside_rings", "window_rings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRings:
    """Rings of `size` slots, whole pages, for `requests` and for the padding row of their table."""

    requests: int
    size: int
    page_size: int

    @property
    def slots(self) -> int:
        """Slots of all rings, that of the padding row among them."""
        return (self.requests + 1) * self.size

    @property
    def lent(self) -> int:
        """Slots of the requests' rings."""
        return self.requests * self.size

    def sized(self, leaf: LeafRequest) -> LeafRequest:
        """The leaf whose slots are these rings; its reserved page is the padding row's first."""
        return replace(leaf, size=self.slots - self.page_size, page_size=self.page_size)

    def for_requests(self, running: int, options: ServingOptions) -> WindowRings:
        """As many as the table of so many requests at once has rows."""
        return replace(self, requests=running + options.rows_to_come)


def window_rings(
    shape: ModelShape, options: ServingOptions, parallel: ParallelLayout
) -> WindowRings | None:
    """Rings for the most requests there may be; None where windows take pages, or there are none.

    A ring holds the window, and the drafted tokens that a verification writes ahead of it, in
    whole pages.

    :raises PlanError: where nobody says how many requests there may be.
    """
    window = shape.window
    if options.window_storage == "paged" or not options.window_pools or window is None:
        return None
    running = parallel.requests_of_group(options.max_running_requests)
    if running is None:
        raise PlanError(
            "max_running_requests",
            None,
            "each request has a ring of window slots, whose bytes come before any token's",
            "state a number",
        )
    page, speculative = options.page, options.speculative
    held = window + (0 if speculative is None else speculative.draft_tokens - 1)
    requests = running + options.rows_to_come
    return WindowRings(requests=requests, size=-(-held // page) * page, page_size=page)


def fit_beside_rings(
    cache_bytes: int, costs: TokenCosts, rings: WindowRings, options: ServingOptions
) -> Tokens | None:
    """The most full tokens beside these rings; None where tokens cost nothing here.

    :raises PlanError: where the rings leave no page, or do not fit.
    """
    beside = replace(costs, window=0, fixed=costs.fixed + rings.slots * costs.window)
    found = fit_tokens(cache_bytes, beside, options.swa_full_tokens_ratio)
    fits = beside.reserved <= cache_bytes and (found is None or found.capacity)
    if fits or not costs.window:
        return None if found is None else Tokens(found.capacity, 0)
    raise PlanError(
        "max_running_requests",
        options.max_running_requests,
        f"their rings of {rings.size} window slots take {rings.slots * costs.window} of "
        f"{cache_bytes} bytes and leave no page",
        "lower it, or give the caches more memory",
    )
