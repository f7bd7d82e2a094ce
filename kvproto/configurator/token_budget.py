"""How many token slots fit in a number of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from .plan_error import PlanError

__all__ = ["TokenCosts", "Tokens", "aligned", "fit_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCosts:
    """Bytes that one token slot takes in each pool; 0 where a stage has no such pool.

    `draft` is charged for every location there is, `draft_scale` of them to a full token.
    `page_size` tokens of every pool are reserved on top of those handed out. `fixed` bytes are
    there whatever the tokens. `paired` says that window slots go with full ones, in a model whose
    layers are of both kinds, also on a stage that has one.
    """

    full: int
    window: int
    draft: int
    page_size: int
    draft_scale: int = 1
    fixed: int = 0
    paired: bool = False

    @property
    def reserved(self) -> int:
        """Bytes that no token is given: those of the reserved pages, and the fixed ones."""
        pages = self.page_size * (self.full + self.window + self.draft * self.draft_scale)
        return pages + self.fixed


@dataclass(frozen=True, slots=True)
class Tokens:
    """Usable token slots of the full pool and of the window pool, whole pages of each."""

    full: int
    window: int

    @property
    def capacity(self) -> int:
        """Tokens that requests can hold together."""
        return self.full or self.window


def fit_tokens(cache_bytes: int, costs: TokenCosts, window_ratio: float) -> Tokens | None:
    """The most tokens whose pools fit in `cache_bytes`; None where tokens cost nothing here.

    Of a pair, `window_ratio` window tokens go with one full token. The counts may be 0.
    """
    left = max(cache_bytes - costs.reserved, 0)
    # Exact, as a share of a decimal: a float can round one token up.
    ratio = Fraction(str(window_ratio)) if costs.paired else Fraction(0)
    windows_alone = bool(costs.window) and not costs.paired and not costs.full
    window = costs.window if windows_alone else ratio * costs.window
    each = costs.full + window + costs.draft * costs.draft_scale
    if not each:
        return None
    fitting = aligned(int(left / Fraction(each)), costs.page_size)
    return Tokens(0, fitting) if windows_alone else with_ratio(fitting, ratio, costs.page_size)


def with_ratio(full: int, ratio: Fraction, page_size: int) -> Tokens:
    """These full tokens, and the window tokens that go with them."""
    return Tokens(full, aligned(int(full * ratio), page_size))


def fit_beside(cache_bytes: int, costs: TokenCosts, window_tokens: int) -> Tokens | None:
    """The most full tokens beside a window pool of a given size; None where those cost nothing.

    :raises PlanError: where the window pool leaves no page, or does not fit.
    """
    left = cache_bytes - costs.reserved - window_tokens * costs.window
    each = costs.full + costs.draft * costs.draft_scale
    full = aligned(max(left, 0) // each, costs.page_size) if each else 0
    if full or (not each and left >= 0):
        return Tokens(full, window_tokens) if each else None
    raise PlanError(
        "max_running_requests",
        window_tokens,
        "the window pool for that many requests leaves nothing for the full pool",
        "lower it, or give the caches more memory",
    )


def aligned(tokens: int, page_size: int) -> int:
    """The whole pages in that many tokens, in tokens."""
    return tokens // page_size * page_size
