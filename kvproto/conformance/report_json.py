"""A report as JSON, under a versioned schema."""

from __future__ import annotations

import json
import platform
from typing import Any

import torch

from kvproto._version import __version__

from .profiles import profile_verdicts
from .report import LawResult, Report, Subject

__all__ = ["SCHEMA", "report_data", "report_json"]

SCHEMA = "kvproto-report/2"
"""Changes when a reader of the old form would misread the new one."""


def report_data(report: Report) -> dict[str, Any]:
    """The report as plain data."""
    return {
        "schema": SCHEMA,
        "implementation": {
            "factory": report.target,
            "classes": [each.name for each in report.subjects if not each.over],
        },
        "versions": {
            "kvproto": __version__,
            "laws": report.laws_version,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "device": report.device,
        "place": report.place,
        "ok": report.ok,
        "conformant": report.conformant,
        "subjects": [_subject(report, subject) for subject in report.subjects],
        "results": [_result(result) for result in report.results],
        "core_never_asked": [
            {"class": subject, "law": law} for subject, law in report.core_never_asked
        ],
        "declined": [{"spec": spec, "reason": reason} for spec, reason in report.declined],
    }


def report_json(report: Report) -> str:
    """The report as indented JSON text."""
    return json.dumps(report_data(report), indent=2) + "\n"


def _subject(report: Report, subject: Subject) -> dict[str, Any]:
    return {
        "class": subject.name,
        "specs": list(subject.specs),
        "capabilities": [
            {"name": c.name, "state": c.state, "reasons": list(c.reasons)}
            for c in subject.capabilities
        ],
        "profiles": [
            {"name": v.profile, "answer": v.answer, "lacks": v.lacks}
            for v in profile_verdicts(report, subject)
        ],
    }


def _result(result: LawResult) -> dict[str, Any]:
    found = result.finding
    return {
        "law": result.law,
        "level": result.rule.level,
        "since": result.rule.since,
        "class": result.subject,
        "spec": result.spec,
        "seed": result.seed,
        "status": result.status,
        "finding": None
        if found is None
        else {"call": found.call, "expected": found.expected, "got": found.got},
        "note": result.note,
    }
