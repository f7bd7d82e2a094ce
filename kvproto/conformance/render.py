"""A report for a person at a terminal (needs `rich`, the `check` extra)."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .capabilities import CapabilityVerdict
from .fallback import TWINS
from .law import LAWS
from .profiles import profile_verdicts
from .report import LawResult, Report, Subject
from .worst import worst_status

__all__ = ["print_matrix", "print_report"]

_MARK = {
    "passed": "✓",
    "passed-by-fallback": "✓",
    "failed": "✗",
    "unexpected": "✗",
    "expected": "e",
    "advisory": "a",
    "blocked": "-",
    "yes": "✓",
    "no": "✗",
    "half": "✗",
    "not asked": "·",
}
_STYLE = {"✓": "green", "✗": "bold red", "e": "yellow", "a": "yellow", "-": "yellow", "·": "dim"}


def print_report(report: Report, console: Console, *, asked: frozenset[str] = frozenset()) -> None:
    """Print each subject's verdicts and laws, then every failure, then the last line.

    `asked` names the only capabilities to show, explained member by member where absent.
    """
    console.print(Text(f"kvproto check {report.target}", style="bold"))
    for subject in report.subjects:
        _print_subject(report, subject, console, asked)
    if claims := report.by_law("claims"):
        console.print(_laws(claims))
    for line in _unasked(report):
        console.print(line)
    for subject_name in dict.fromkeys(r.subject for r in report.results):
        for results in report.by_law(subject_name).values():
            shown = [r for r in results if r.finding is not None or r.status == "unexpected"]
            if shown:
                _print_failure(report, shown, len(results), console)
    console.print(_last_line(report))


def _print_subject(
    report: Report, subject: Subject, console: Console, asked: frozenset[str]
) -> None:
    read = "; bytes read through read doors" if subject.by_fallback else ""
    read += f"; {TWINS}" if subject.by_twins else ""
    console.print(
        f"\n[bold]{subject.name}[/bold]; {_count(len(subject.specs), 'geometry', 'geometries')} "
        f"served, {len(report.declined)} declined{read}",
        highlight=False,
    )
    console.print(_capabilities(report, subject, asked))
    lacks = [c.name for c in subject.capabilities if c.state == "no"]
    if lacks and not asked:
        console.print(Text(f"not offered: {', '.join(lacks)}", style="dim"))
    results = report.by_law(subject.name)
    if not results:
        return
    console.print(_laws(results))
    for verdict in profile_verdicts(report, subject):
        line = Text("  ").append(_mark(verdict.answer)).append(f" {verdict.profile}")
        console.print(line.append(f": {verdict.lacks}" if verdict.lacks else "", style="dim"))


def _capabilities(report: Report, subject: Subject, asked: frozenset[str]) -> Table:
    table = Table("", "capability", "verdict", box=None, pad_edge=False)
    for verdict in subject.capabilities:
        if (verdict.name not in asked) if asked else (verdict.state == "no"):
            continue
        judged = Text(_judged(report, subject, verdict))
        table.add_row(_mark(verdict.state), verdict.name, judged)
    return table


def _judged(report: Report, subject: Subject, verdict: CapabilityVerdict) -> str:
    if verdict.state != "yes":
        half = "half offered" if verdict.state == "half" else "not offered"
        return f"{half}: {'; '.join(verdict.reasons)}"
    bound = {
        law
        for law, rule in LAWS.items()
        if verdict.name in {capability.__name__ for capability in rule.capabilities}
    }
    results = {k: v for k, v in report.by_law(subject.name).items() if k in bound}
    broken = [k for k, v in results.items() if worst_status(v) in ("failed", "unexpected")]
    if broken:
        return f"detected; breaks {', '.join(broken)}"
    if any(worst_status(v) == "blocked" for v in results.values()):
        return "detected; not judged, its laws were blocked"
    if not results:
        return "detected; no law here"
    kept = sum(worst_status(v) != "not asked" for v in results.values())
    unasked = f", {len(results) - kept} not asked" if kept < len(results) else ""
    return f"detected; {_count(kept, 'law')} kept{unasked}"


def _laws(results: dict[str, list[LawResult]]) -> Table:
    table = Table("", "law", "kept in", "claim", box=None, pad_edge=False)
    for law, each in results.items():
        passed = sum(r.status in ("passed", "passed-by-fallback") for r in each)
        unasked = sum(r.status == "not asked" for r in each)
        kept = f"{passed} of {len(each) - unasked}" if unasked < len(each) else "not asked"
        kept += f", {unasked} not asked" if 0 < unasked < len(each) else ""
        table.add_row(_mark(worst_status(each)), law, kept, Text(each[0].rule.claim))
    return table


def _unasked(report: Report) -> Iterator[Text]:
    """A line for each law and reason, and one for each core law that was never asked."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for each in report.not_asked:
        reasons.setdefault((each.subject, each.law, each.note), []).append(each.spec)
    for (subject, law, reason), specs in reasons.items():
        where = _count(len(specs), "geometry", "geometries")
        yield Text(f"· {law} not asked of {subject} in {where}: {reason}", style="dim")
    for subject, law in report.core_never_asked:
        yield Text(f"· core law {law} was never asked of {subject}", style="yellow")


def _print_failure(report: Report, failed: list[LawResult], tried: int, console: Console) -> None:
    first = failed[0]
    more = f", and {len(failed) - 1} more of {tried} geometries" if len(failed) > 1 else ""
    found = first.finding
    lines = {
        "claim": first.rule.claim,
        "where": f"{first.subject}, {first.spec}{more}",
        "call": found.call if found else "",
        "expected": found.expected if found else "",
        "got": found.got if found else "",
        "note": first.note,
        "check": first.rule.check,
    }
    mark = _mark(first.status)
    console.print(Text("\n").append(mark).append(f" {first.law}", style=mark.style))
    grid = Table.grid(padding=(0, 2))
    for name, text in lines.items():
        if text:
            grid.add_row(Text(f"  {name:8}", style="dim"), Text(text, overflow="fold"))
    console.print(grid)
    # Not folded: it is there to be copied.
    console.print(
        Text("  again     ", style="dim").append(report.again(first), style="default"),
        soft_wrap=True,
    )


def _last_line(report: Report) -> Text:
    if not report.executed:
        return Text("\nno law ran: nothing was proven", style="bold red")
    every = {law: worst_status(results) for law, results in report.by_law().items()}
    by_status = {law: status for law, status in every.items() if status != "not asked"}
    ran = _count(len(by_status), "law")
    broken = [law for law, s in by_status.items() if s in ("failed", "unexpected")]
    rest = [
        f"{count} {word}"
        for word, status in (("blocked", "blocked"), ("expected", "expected"), ("advisory",) * 2)
        if (count := sum(s == status for s in by_status.values()))
    ]
    unasked = len(every) - len(by_status)
    note = f", {', '.join(rest)}" if rest else ""
    known = " or known" if rest else ""
    note += f", {unasked} not asked" if unasked else ""
    if broken:
        return Text(f"\n{len(broken)} of {ran} broken{note}", style="bold red")
    return Text(f"\nall {ran} kept{known}{note}", style="bold green")


def _mark(state: str) -> Text:
    mark = _MARK[state]
    return Text(mark, style=_STYLE[mark])


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"


def print_matrix(report: Report, console: Console) -> None:
    """Print the laws, a row of them for each model, what was declined, failures, the last line.

    For reports on a platform, whose subjects are models.
    """
    console.print(Text(f"kvproto check {report.target}", style="bold"))
    served = sum(len(subject.specs) for subject in report.subjects)
    console.print(
        f"\n{_count(len(report.subjects), 'model')} in {_count(served, 'deployment')}; "
        f"{len(report.declined)} declined",
        highlight=False,
    )
    by_law, claims = report.by_law(), report.by_law("claims")
    laws = [law for law in by_law if law not in claims]
    console.print(_laws(by_law))
    columns = ", ".join(f"{number} {law}" for number, law in enumerate(laws, start=1))
    console.print(f"columns: {columns}", highlight=False)
    console.print(_models(report, laws))
    for reason in dict.fromkeys(reason for _, reason in report.declined):
        names = [name for name, told in report.declined if told == reason]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(Text(f"declined {names[0]}{more}: {reason}", style="dim"))
    for results in by_law.values():
        shown = [r for r in results if r.finding is not None or r.status == "unexpected"]
        if shown:
            _print_failure(report, shown, len(results), console)
    console.print(_last_line(report))


def _models(report: Report, laws: list[str]) -> Table:
    """The columns are numbers of laws: names are wider than marks."""
    table = Table("\nmodel", *(f"\n{n}" for n in range(1, len(laws) + 1)), box=None, pad_edge=False)
    for subject in report.subjects:
        results = report.by_law(subject.name)
        marks = [_mark(worst_status(results[law])) if law in results else "" for law in laws]
        table.add_row(subject.name, *marks)
    return table
