"""What a class offers, it offers whole; what a vendor says, it says truly."""

from __future__ import annotations

import dis
import inspect
from types import FunctionType

from kvproto.protocols import explain

from ..bench import Bench
from ..broken import LawBroken
from ..capabilities import advertised_methods, half_offered
from ..declarations import ClaimsBench
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


@law(
    "declaration.raising-stub",
    check="set the member to None on the class; a body that raises still advertises it",
)
def raising_stub(bench: Bench) -> None:
    """No method of a capability the pool has is a body that can only raise."""
    pool: object = bench.pool
    for name in advertised_methods(pool):
        method: object = inspect.getattr_static(type(pool), name)
        if isinstance(method, FunctionType) and _only_raises(method):
            raise LawBroken(
                f"{name}(...)", expected="an operation that works", got="it only raises"
            )


def _only_raises(function: FunctionType) -> bool:
    operations = {i.opname for i in dis.get_instructions(inspect.unwrap(function))}
    returns = {"RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE"}
    return "RAISE_VARARGS" in operations and not operations & returns


@law(
    "declaration.claims",
    check="correct the claim, or the member that explain() names",
)
def claims(bench: ClaimsBench) -> None:
    """What the vendor claims is detected, and what is detected is claimed."""
    stated, cannot = bench.request.stated, set(bench.request.cannot)
    wrong = [f"{name} said to be impossible, but detected" for name in cannot & bench.detected]
    if stated is not None:
        wrong += [f"{name} claimed, but not detected" for name in stated - bench.detected]
        unclaimed = bench.detected - stated - cannot
        wrong += [f"{name} detected, but not claimed" for name in unclaimed]
    if wrong:
        raise LawBroken(
            "claims and cannot", expected="what is detected", got="; ".join(sorted(wrong))
        )
