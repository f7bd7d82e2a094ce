"""What a run of the kit found, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .capabilities import CapabilityVerdict
from .law import LAWS, Law
from .oracle import OracleSource

__all__ = ["Finding", "LawResult", "LawStatus", "Report"]

LawStatus = Literal["passed", "failed", "blocked"]


@dataclass(frozen=True, slots=True)
class Finding:
    """How a law was broken: the call, what was expected of it, what came."""

    call: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class LawResult:
    """One law on one spec. `finding` is set when it failed, `blocked_by` when it was blocked."""

    rule: Law
    spec: str
    status: LawStatus
    finding: Finding | None = None
    blocked_by: str = ""

    @property
    def law(self) -> str:
        """The law's id."""
        return self.rule.id

    @property
    def detail(self) -> str:
        """One line of what was found; empty when the law passed."""
        if self.finding is None:
            return f"blocked by {self.blocked_by}" if self.blocked_by else ""
        found = self.finding
        return f"{found.call}: expected {found.expected}, got {found.got}"


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a run found.

    `target` names the factory, `pool` the class it built; `served` and `declined` are the names
    of the geometries, the latter with the factory's reasons.
    """

    target: str
    pool: str
    oracle: OracleSource
    served: tuple[str, ...]
    capabilities: tuple[CapabilityVerdict, ...]
    results: tuple[LawResult, ...]
    declined: tuple[tuple[str, str], ...]

    @property
    def failures(self) -> list[LawResult]:
        """The results that failed, in the order they were run."""
        return [r for r in self.results if r.status == "failed"]

    @property
    def ok(self) -> bool:
        """Did some law run, and none fail?"""
        return bool(self.results) and not self.failures

    def by_law(self) -> dict[str, list[LawResult]]:
        """The results of each law that ran, in the laws' own order."""
        grouped: dict[str, list[LawResult]] = {law: [] for law in LAWS}
        for result in self.results:
            grouped[result.law].append(result)
        return {law: results for law, results in grouped.items() if results}
