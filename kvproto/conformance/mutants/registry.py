"""Pools with one small fault each, so that every law can be seen to bite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kvproto.protocols import Declined, DSALeafRequest, Layout, LeafRequest

from ..block_codec import is_block_scaled
from ..check import check_pool
from ..factory import Factory
from ..law import LAWS
from ..report import LawResult, Report
from ..search import first_failure_will_do

__all__ = ["MUTANTS", "Killed", "Mutant", "from_keywords", "mutant", "run_mutants"]

T = TypeVar("T", bound=type)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A faulty pool: the law that must name its fault, and the public fault it repeats.

    `asked` are further arguments of `check`, for laws about what a vendor says. `check` is
    `check_pool`, or what else such factories are held to laws with.
    """

    name: str
    kills: str
    source: str
    factory: Factory
    asked: Mapping[str, Any] = field(default_factory=dict[str, Any])
    check: Callable[..., Report] = check_pool

    def report(self) -> Report:
        """What the law that must name its fault finds, without a search for shorter findings."""
        with first_failure_will_do():
            return self.check(self.factory, laws=[self.kills], **self.asked)


@dataclass(frozen=True, slots=True)
class Killed:
    """A mutant after its run; `by` is the finding, None when the law let it pass."""

    mutant: Mutant
    by: LawResult | None


MUTANTS: list[Mutant] = []
"""Every mutant, in the order of their modules and lines."""


def from_keywords(cls: Any, request: Any) -> Any:
    """For pools, whose requests hold the keywords of their constructors.

    Rows under block scales are those of other classes (see `blocks.py`), and so are index keys of
    several tokens (see `kpool.py`).
    """
    if isinstance(request, DSALeafRequest) and request.index_kpool > 1:
        return Declined(f"{cls.__name__} has an index key per token")
    if is_block_scaled(request):
        return Declined(f"{cls.__name__} keeps no block scales")
    return cls(**request.keywords())


def mutant(
    law: str,
    *,
    serves: type,
    source: str = "",
    layouts: tuple[Layout, ...] = ("nhd", "latent_rows"),
    build: Callable[[Any, Any], Any] = from_keywords,
    **asked: Any,
) -> Callable[[T], T]:
    """Register a class as a mutant that `law` kills.

    `build(cls, request)` makes one for requests of type `serves`; every other is declined, and so
    are those for other layouts than `layouts`, by default those of one row after the other.
    `source` names the public report of the fault, where there is one.
    """

    def register(cls: T) -> T:
        def factory(request: Any) -> Any:
            if not isinstance(request, serves):
                return Declined(f"{cls.__name__} serves {serves.__name__} only")
            if isinstance(request, LeafRequest) and request.layout not in layouts:
                return Declined(f"{cls.__name__} serves {', '.join(layouts)} only")
            return build(cls, request)

        MUTANTS.append(Mutant(cls.__name__, law, source, factory, asked))
        return cls

    return register


def run_mutants(mutants: Sequence[Mutant]) -> Iterator[Killed]:
    """Hold each mutant to the law that must kill it.

    :raises KeyError: for a mutant that names no law.
    """
    for each in mutants:
        LAWS[each.kills]
        broken = [r for r in each.report().failures if r.law == each.kills]
        yield Killed(each, broken[0] if broken else None)
