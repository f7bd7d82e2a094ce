"""A report as one HTML file that needs no network (needs `jinja2`, the `check` extra)."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from itertools import cycle

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kvproto._version import __version__
from kvproto.protocols import Platform

from .capabilities import ALLOCATOR_CAPABILITIES, POOL_CAPABILITIES
from .law import Law
from .profiles import ProfileVerdict, profile_verdicts
from .report import LawResult, LawStatus, Report, Subject
from .worst import worst_status

__all__ = ["report_html"]


@dataclass(frozen=True, slots=True)
class _Row:
    """One law on one subject: its status as a whole, and in each geometry."""

    law: Law
    status: LawStatus
    cells: list[tuple[str, LawResult | None]]
    shown: list[LawResult]


@dataclass(frozen=True, slots=True)
class _Group:
    """The laws of one capability."""

    capability: str
    question: str
    rows: list[_Row]


@dataclass(frozen=True, slots=True)
class _Section:
    subject: Subject
    profiles: list[ProfileVerdict]
    groups: list[_Group]


def report_html(report: Report) -> str:
    """The page: per class the verdict per consumer, and the laws of each capability by geometry."""
    environment = Environment(
        loader=PackageLoader("kvproto.conformance"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["code"] = _code
    versions = {
        "kvproto": __version__,
        "laws": report.laws_version,
        "torch": torch.__version__,
        "Python": platform.python_version(),
    }
    template = environment.get_template("report.html.j2")
    sections = [_section(report, subject) for subject in report.subjects]
    claims = [result for result in report.results if result.subject == "claims"]
    return template.render(report=report, versions=versions, sections=sections, claims=claims)


def _code(text: str) -> Markup:
    """Text in which `names` are set as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd else part
        for part, odd in zip(parts, cycle((False, True)))
    )


def _section(report: Report, subject: Subject) -> _Section:
    by_law = report.by_law(subject.name)
    rows = [_row(results, subject) for results in by_law.values()]
    names = list(dict.fromkeys(_capability(row.law) for row in rows))
    groups = [
        _Group(name, _question(name), [row for row in rows if _capability(row.law) == name])
        for name in names
    ]
    return _Section(subject, profile_verdicts(report, subject), groups)


def _row(results: list[LawResult], subject: Subject) -> _Row:
    by_spec = {result.spec: result for result in results}
    cells = [(spec, by_spec.get(spec)) for spec in subject.specs]
    shown = [r for r in results if r.finding is not None or r.note]
    return _Row(results[0].rule, worst_status(results), cells, shown)


def _capability(law: Law) -> str:
    return law.capabilities[0].__name__ if law.capabilities else "Every pool"


def _question(name: str) -> str:
    for protocol in (*POOL_CAPABILITIES, *ALLOCATOR_CAPABILITIES, Platform):
        if protocol.__name__ == name:
            return (protocol.__doc__ or "").strip().split("\n", 1)[0]
    return "What is offered is offered whole."
