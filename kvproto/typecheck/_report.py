"""The verdict as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ._verdict import Finding, ProtocolVerdict

__all__ = ["report"]


def report(target: str, verdicts: Sequence[ProtocolVerdict], checkers: Sequence[str]) -> str:
    """A paragraph per protocol: the findings first, then the members that fit."""
    fitting = sum(not verdict.findings for verdict in verdicts)
    of_all = f"fits {fitting} of {_plural(len(verdicts), 'protocol')}"
    paragraphs = [_paragraph(verdict) for verdict in verdicts]
    return "\n\n".join([*paragraphs, f"{target} {of_all}, {_said_by(checkers)}"])


def _paragraph(verdict: ProtocolVerdict) -> str:
    new = [finding for finding in verdict.findings if finding.member not in verdict.told]
    lines = [f"{verdict.protocol}: {_heading(len(new), len(verdict.findings) - len(new))}"]
    for finding in new:
        lines += _block(finding)
    lines += _list("fine", [m for m in verdict.fitting() if m not in verdict.told])
    unchecked = [m for m in verdict.unchecked if m not in verdict.told]
    lines += _list("not annotated, so checkers believe anything", unchecked)
    return "\n".join(lines)


def _heading(new: int, told: int) -> str:
    if not new and not told:
        return "fits"
    above = f"{told} of those above"
    return " and ".join([_plural(new, "finding")] * bool(new) + [above] * bool(told))


def _block(finding: Finding) -> list[str]:
    facts = {"expected": finding.expected, "came": finding.came, "why": finding.why}
    subject = f"{finding.member or 'the class as a whole'}  ({_said_by(finding.checkers)})"
    return [f"  {subject}", *(f"    {name:9} {text}" for name, text in facts.items() if text)]


def _list(title: str, members: Sequence[str]) -> list[str]:
    if not members:
        return []
    text = f"  {title}: {', '.join(members)}"
    return textwrap.wrap(text, 96, subsequent_indent="    ")


def _said_by(checkers: Sequence[str]) -> str:
    return f"say{'s' if len(checkers) == 1 else ''} {' and '.join(checkers)}"


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
