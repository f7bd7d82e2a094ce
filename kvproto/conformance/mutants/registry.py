"""Pools with one small fault each, so that every law can be seen to bite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kvproto.protocols import Declined

from ..check import check_pool
from ..factory import Factory
from ..law import LAWS
from ..report import LawResult

__all__ = ["MUTANTS", "Killed", "Mutant", "mutant", "run_mutants"]

T = TypeVar("T", bound=type)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A faulty pool: the law that must name its fault, and the public fault it repeats.

    `asked` are further arguments of `check_pool`, for laws about what a vendor says.
    """

    name: str
    kills: str
    source: str
    factory: Factory
    asked: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Killed:
    """A mutant after its run; `by` is the finding, None when the law let it pass."""

    mutant: Mutant
    by: LawResult | None


MUTANTS: list[Mutant] = []
"""Every mutant, in the order of their modules and lines."""


def mutant(law: str, *, serves: type, source: str = "", **asked: Any) -> Callable[[T], T]:
    """Register a class as a mutant that `law` kills.

    It is built from the keywords of requests of type `serves`, and declines every other.
    `source` names the public report of the fault, where there is one.
    """

    def register(cls: T) -> T:
        def build(request: Any) -> Any:
            if not isinstance(request, serves):
                return Declined(f"{cls.__name__} serves {serves.__name__} only")
            keywords: dict[str, Any] = getattr(request, "keywords")()  # noqa: B009
            return cls(**keywords)

        MUTANTS.append(Mutant(cls.__name__, law, source, build, asked))
        return cls

    return register


def run_mutants() -> Iterator[Killed]:
    """Hold each mutant to the law that must kill it.

    :raises KeyError: for a mutant that names no law.
    """
    for each in MUTANTS:
        LAWS[each.kills]
        report = check_pool(each.factory, laws=[each.kills], **each.asked)
        broken = [r for r in report.failures if r.law == each.kills]
        yield Killed(each, broken[0] if broken else None)
