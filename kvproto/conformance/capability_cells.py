"""What a platform has of each capability: kept by which laws, or declined, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from kvproto.protocols import Declined, supports
from kvproto.reference.platforms import cpu

from .capabilities import ALLOCATOR_CAPABILITIES, POOL_CAPABILITIES, capabilities_for
from .over_leaves import over_leaves
from .platform_parts import PART_SPECS, parts_of
from .report import LawResult, Report, Subject
from .worst import worst_status

__all__ = [
    "CAPABILITY_NAMES",
    "NOWHERE",
    "Cell",
    "CellState",
    "capability_cells",
    "side_by_side",
]

CellState = Literal["kept", "known", "broken", "offered", "declined", "not offered", "not judged"]
"""`kept`: every law about the capability, or one that extends it, that could be asked. `known`: but
for failures that were announced. `offered`: without a law that parts can be asked. `declined`: the
platform builds nothing that has it; `not offered`: what it builds in its place lacks it. `not
judged`: not asked for in this run, or a law that is needed was broken."""


@dataclass(frozen=True, slots=True)
class Cell:
    """`laws` are those kept, or those broken; `why` is the reason where there is none."""

    state: CellState
    laws: tuple[str, ...] = ()
    why: str = ""


def capability_cells(report: Report) -> dict[str, Cell]:
    """By the capability's name, for those that a part here or one of the reference has."""
    offering = _offering()
    return {
        name: _cell(report, name, offering.get(name, ()))
        for name in CAPABILITY_NAMES
        if name in offering or any(subject.has(name) for subject in report.subjects)
    }


def side_by_side(reports: Mapping[str, Report]) -> dict[str, dict[str, Cell]]:
    """The cells of several platforms, each with every capability that one of them has."""
    cells = {name: capability_cells(report) for name, report in reports.items()}
    names = [name for name in CAPABILITY_NAMES if any(name in each for each in cells.values())]
    return {
        platform: {name: each.get(name, NOWHERE) for name in names}
        for platform, each in cells.items()
    }


CAPABILITY_NAMES = tuple(
    capability.__name__ for capability in (*POOL_CAPABILITIES, *ALLOCATOR_CAPABILITIES)
)
"""In the order in which tables show them."""

NOWHERE = Cell("not offered", (), "nothing that it builds has it")
"""Of a capability that is another platform's alone."""


@lru_cache(maxsize=1)
def _offering() -> Mapping[str, tuple[str, ...]]:
    """The geometries in which the reference has each capability, which has all that there are."""
    factory = parts_of(cpu())
    compose = over_leaves(factory)
    having: dict[str, list[str]] = {name: [] for name in CAPABILITY_NAMES}
    for spec in PART_SPECS:
        made = factory(spec.request)
        made = compose(spec.request) if isinstance(made, Declined) else made
        for capability in capabilities_for(made):
            if not isinstance(made, Declined) and supports(made, capability):
                having[capability.__name__].append(spec.name)
    return {name: tuple(specs) for name, specs in having.items() if specs}


def _cell(report: Report, capability: str, specs: Sequence[str]) -> Cell:
    having = [subject for subject in report.subjects if subject.has(capability)]
    if having:
        return _judged(report, capability, having)
    for subject in report.subjects:
        for verdict in subject.capabilities:
            if verdict.name == capability and verdict.state == "half":
                return Cell("broken", ("declaration.half-offered",), _told(subject, capability))
    return _absent(report, capability, specs)


def _judged(report: Report, capability: str, having: Sequence[Subject]) -> Cell:
    names = {subject.name for subject in having}
    by_law: dict[str, list[LawResult]] = {}
    for result in report.results:
        bound = {base.__name__ for each in result.rule.capabilities for base in each.__mro__}
        if result.subject in names and capability in bound:
            by_law.setdefault(result.law, []).append(result)
    status = {law: worst_status(results) for law, results in by_law.items()}
    if broken := _with(status, "failed", "unexpected"):
        return Cell("broken", broken)
    if known := _with(status, "expected", "advisory"):
        return Cell("known", known)
    if blocked := _with(status, "blocked"):
        return Cell("not judged", blocked, "laws that these need are broken")
    kept = _with(status, "passed", "passed-by-fallback")
    return Cell("kept", kept) if kept else Cell("offered", (), "no law of its own was asked here")


def _with(status: Mapping[str, str], *wanted: str) -> tuple[str, ...]:
    return tuple(law for law, each in status.items() if each in wanted)


def _absent(report: Report, capability: str, specs: Sequence[str]) -> Cell:
    for subject in report.subjects:
        if set(specs) & set(subject.specs):
            return Cell("not offered", (), _told(subject, capability))
    declined = dict(report.declined)
    reasons = list(dict.fromkeys(declined[spec] for spec in specs if spec in declined))
    if not reasons:
        return Cell("not judged", (), "not asked for in this run")
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return Cell("declined", (), f"{reasons[0]}{more}")


def _told(subject: Subject, capability: str) -> str:
    reasons = next(v.reasons for v in subject.capabilities if v.name == capability)
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"{subject.name}: {reasons[0]}{more}" if reasons else subject.name
