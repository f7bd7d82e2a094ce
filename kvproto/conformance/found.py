"""What runs of laws found, and the report that it makes with what the vendor said before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kvproto._bad_input import BadInput

from .declarations import declaration_results
from .expectations import Claims, ExpectedFailure, apply_expectations, claims_of, expected_failures
from .law import Law
from .report import LawResult, Report, Subject
from .row_access import RowAccess

__all__ = ["LAWS_VERSION", "Found", "Terms", "name_of", "report_of"]

LAWS_VERSION = "1.0"
"""The newest version of the laws; what a vendor pins unless it says otherwise."""


@dataclass(slots=True)
class Found:
    """Of one kind of subject. `claimed` are those that the vendor's claims are about."""

    subjects: list[Subject] = field(default_factory=list[Subject])
    results: list[LawResult] = field(default_factory=list[LawResult])
    declined: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    claimed: list[Subject] = field(default_factory=list[Subject])

    def __add__(self, other: Found, /) -> Found:
        """Both, this first."""
        return Found(
            self.subjects + other.subjects,
            self.results + other.results,
            self.declined + other.declined,
            self.claimed + other.claimed,
        )

    @property
    def reasons(self) -> str:
        """Why what was declined was, in one line."""
        return "; ".join(sorted({reason for _, reason in self.declined}))


@dataclass(frozen=True, slots=True)
class Terms:
    """What a vendor says before a run: claims, laws it knows to be broken, the version it pins."""

    claims: Claims
    known: Mapping[str, ExpectedFailure]
    version: str
    pinned: tuple[int, ...]

    @classmethod
    def of(
        cls,
        claims: Iterable[str] | None,
        cannot: Mapping[str, str] | None,
        expected: Mapping[str, Any] | None,
        version: str,
    ) -> Terms:
        """As `check_pool` takes them.

        :raises BadInput: for names that do not exist and for what cannot be met.
        """
        return cls(
            claims_of(claims, cannot), expected_failures(expected), version, _numbers(version)
        )

    def judged(self, results: Iterable[LawResult]) -> list[LawResult]:
        """With failures of newer laws as advice, and those that were announced as expected.

        :raises BadInput: for an expected failure of a law that bound nothing in this run.
        """
        return apply_expectations([self._aged(result) for result in results], self.known)

    def _aged(self, result: LawResult) -> LawResult:
        if result.status == "failed" and result.rule.version > self.pinned:
            return replace(result, status="advisory", note=f"new in {result.rule.since}")
        return result


def report_of(
    found: Found,
    laws: Sequence[Law],
    terms: Terms,
    *,
    target: str,
    place: str = "",
    device: str = "cpu",
    seed: int = 0,
    row_access: RowAccess | None = None,
) -> Report:
    """The report, with the laws about claims; `place` says why pools are not on their device.

    :raises BadInput: as `Terms.judged`.
    """
    results = found.results + declaration_results(laws, found.claimed, terms.claims, seed)
    return Report(
        target=target,
        laws_version=terms.version,
        subjects=tuple(found.subjects),
        results=tuple(terms.judged(results)),
        declined=tuple(found.declined),
        row_access="" if row_access is None else name_of(type(row_access)),
        place=place,
        device=device,
    )


def name_of(factory: object) -> str:
    """How the shell would write what it was given, `module:name`."""
    module = getattr(factory, "__module__", "")
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    return f"{module}:{name}" if module else name


def _numbers(version: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version.split("."))
    except ValueError:
        raise BadInput(f"laws version '{version}': write it like {LAWS_VERSION}") from None
