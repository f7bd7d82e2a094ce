"""What a run of the kit found, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .capabilities import CapabilityVerdict
from .law import LAWS, Law

__all__ = ["Finding", "LawResult", "LawStatus", "Report", "Subject"]

LawStatus = Literal[
    "passed",
    "passed-by-fallback",
    "failed",
    "blocked",
    "not asked",
    "expected",
    "unexpected",
    "advisory",
]
"""`passed-by-fallback`: with bytes read behind the pool's own doors, or with torch operations where
Triton kernels were wanted; the note says so then. `expected`: failed as the
vendor said it would. `unexpected`: passed although it was said to fail. `advisory`: failed, but is
newer than the version of the laws that the vendor pins. `blocked`: not run. `not asked`: the pool
or its factory left the law nothing to ask, so that it is neither kept nor broken."""

_COUNTS_AGAINST: frozenset[LawStatus] = frozenset({"failed", "unexpected"})


@dataclass(frozen=True, slots=True)
class Finding:
    """How a law was broken: the call, what was expected of it, what came."""

    call: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class LawResult:
    """One law on one spec. `finding` is set unless it passed, was blocked or not asked.

    `note` says which law blocked it, why it could not be asked, why its failure was expected, or
    what a passing law tells of its run.
    """

    rule: Law
    subject: str
    spec: str
    seed: int
    status: LawStatus
    finding: Finding | None = None
    note: str = ""

    @property
    def law(self) -> str:
        """The law's id."""
        return self.rule.id

    @property
    def counts_against(self) -> bool:
        """Does this result make the run fail?"""
        return self.status in _COUNTS_AGAINST

    @property
    def detail(self) -> str:
        """One line of what was found; empty when the law passed."""
        if self.finding is None:
            return self.note
        found = self.finding
        return f"{found.call}: expected {found.expected}, got {found.got}"


@dataclass(frozen=True, slots=True)
class Subject:
    """One class that the factory built: what it can do, by detection, and in which geometries.

    `over` is set on composites of the kit's own: the class of the factory's leaves in them.
    `by_fallback`: some law was kept by what the pool's own doors show; `by_twins`: on torch
    operations instead of kernels.
    """

    name: str
    specs: tuple[str, ...]
    capabilities: tuple[CapabilityVerdict, ...]
    over: str = ""
    by_fallback: bool = False
    by_twins: bool = False

    def has(self, capability: str) -> bool:
        """Was the capability detected?"""
        return any(c.name == capability and c.state == "yes" for c in self.capabilities)


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a run found.

    `target` names the factory; `declined` are the geometries it did not serve, with its reasons;
    `laws_version` is what the vendor pins, `row_access` names what else its pools were read with.
    `place` says why a platform's pools are not on its device; "" where that was not asked.
    `device` is where pools were built, those of a platform's models excepted.
    """

    target: str
    laws_version: str
    subjects: tuple[Subject, ...]
    results: tuple[LawResult, ...]
    declined: tuple[tuple[str, str], ...]
    row_access: str = ""
    place: str = ""
    device: str = "cpu"

    @property
    def failures(self) -> list[LawResult]:
        """The results that make the run fail, in the order they were run."""
        return [r for r in self.results if r.counts_against]

    @property
    def ok(self) -> bool:
        """Did some law run, and none fail that was not expected to?"""
        return self.executed and not self.failures

    @property
    def executed(self) -> bool:
        """Did some law put its question to a pool?"""
        return any(r.status not in ("blocked", "not asked") for r in self.results)

    @property
    def conformant(self) -> bool:
        """`ok`, and no failure was merely expected or advisory. What was not asked is none."""
        good = ("passed", "passed-by-fallback", "not asked")
        return self.ok and all(r.status in good for r in self.results)

    @property
    def not_asked(self) -> list[LawResult]:
        """The results of laws that had nothing to ask, in the order they were run."""
        return [r for r in self.results if r.status == "not asked"]

    @property
    def core_never_asked(self) -> list[tuple[str, str]]:
        """Subject and id of core laws that bind it and were asked of none of its geometries."""
        core = [(r.subject, r.law, r.status) for r in self.results if r.rule.level == "core"]
        asked = {(subject, law) for subject, law, status in core if status != "not asked"}
        return list(dict.fromkeys((s, law) for s, law, _ in core if (s, law) not in asked))

    @property
    def command(self) -> str:
        """What was run, but for what narrowed it."""
        return f"kvproto check {self.target}{self._on_device}"

    @property
    def _on_device(self) -> str:
        return "" if self.device == "cpu" else f" --device {self.device}"

    def again(self, result: LawResult) -> str:
        """The command that runs a law again, on the same pool."""
        access = f" --row-access {self.row_access}" if self.row_access else ""
        place = f"--seed {result.seed} --spec {result.spec}{access}{self._on_device}"
        return f"kvproto repro {result.law} {place} {self.target}"

    def by_law(self, subject: str | None = None) -> dict[str, list[LawResult]]:
        """The results of each law that ran, in the laws' own order, of one subject or of all."""
        grouped: dict[str, list[LawResult]] = {law: [] for law in LAWS}
        for result in self.results:
            if subject in (None, result.subject):
                grouped[result.law].append(result)
        return {law: results for law, results in grouped.items() if results}
