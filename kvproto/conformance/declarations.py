"""The laws that compare what a vendor says with what was detected, over all subjects at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .bench import Bench
from .broken import LawBroken
from .expectations import Claims
from .law import Law
from .report import Finding, LawResult, Subject

__all__ = ["ClaimsBench", "declaration_results"]


class ClaimsBench(Bench):
    """What the vendor said (`request`) and what was detected on its subjects (`pool`)."""

    request: Claims
    pool: Sequence[Subject]

    @property
    def detected(self) -> set[str]:
        """Capabilities that at least one subject has."""
        return {c.name for s in self.pool for c in s.capabilities if c.state == "yes"}


def declaration_results(
    laws: Iterable[Law], subjects: Sequence[Subject], said: Claims, seed: int
) -> list[LawResult]:
    """The results of the laws on claims; none where nothing was said."""
    if said.silent:
        return []
    results: list[LawResult] = []
    for law in laws:
        if law.bench is not ClaimsBench:
            continue
        place = (law, "claims", "claims", seed)
        try:
            law.run(ClaimsBench(said, subjects, seed))
        except LawBroken as broken:
            found = Finding(broken.call, broken.expected, broken.got)
            results.append(LawResult(*place, "failed", found))
        else:
            results.append(LawResult(*place, "passed"))
    return results
