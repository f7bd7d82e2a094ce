"""What a class offers, it offers whole."""

from __future__ import annotations

from kvproto.protocols import explain

from ..bench import Bench
from ..broken import LawBroken
from ..capabilities import half_offered
from ..law import law


@law(
    "declaration.half-offered",
    check="complete the capability, or set the member to None to say that it is not supported",
)
def half_offers(bench: Bench) -> None:
    """A method that belongs to a capability comes with the whole of it, callable as callers do."""
    offers = half_offered(bench.pool)
    if offers:
        reasons = (f"{p.__name__} ({'; '.join(explain(bench.pool, p))})" for p in offers)
        raise LawBroken(
            f"isinstance({type(bench.pool).__name__}(...), {offers[0].__name__})",
            expected="whole capabilities",
            got=" and ".join(reasons),
        )
