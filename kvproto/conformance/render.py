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

__all__ = [
    "counted",
    "last_line",
    "laws_table",
    "mark_of",
    "print_claims",
    "print_failures",
    "print_report",
    "print_unasked",
    "reservations",
]

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
    "declined": "-",
    "not offered": "·",
}
_STYLE = {"✓": "green", "✗": "bold red", "e": "yellow", "a": "yellow", "-": "yellow", "·": "dim"}


def print_report(report: Report, console: Console, *, asked: frozenset[str] = frozenset()) -> None:
    """Print each subject's verdicts and laws, then every failure, then the last line.

    `asked` names the only capabilities to show, explained member by member where absent.
    """
    console.print(Text(report.command, style="bold"))
    for subject in report.subjects:
        _print_subject(report, subject, console, asked)
    print_claims(report, console)
    print_unasked(report, console)
    print_failures(report, console)
    console.print(last_line(report))


def print_claims(report: Report, console: Console) -> None:
    """What became of the vendor's claims, where there are any."""
    if claims := report.by_law("claims"):
        console.print(laws_table(claims))


def print_unasked(report: Report, console: Console) -> None:
    """A line for each law that was not asked and its reason."""
    for line in _unasked(report):
        console.print(line)


def print_failures(report: Report, console: Console) -> None:
    """Every broken law of every subject: what was called, what came, how to run it again."""
    for subject_name in dict.fromkeys(r.subject for r in report.results):
        for results in report.by_law(subject_name).values():
            shown = [r for r in results if r.finding is not None or r.status == "unexpected"]
            if shown:
                _print_failure(report, shown, len(results), console)


def reservations(subject: Subject) -> str:
    """What has to be added to its verdict: how rows were read, and what they were stored with."""
    read = "; bytes read through read doors" if subject.by_fallback else ""
    return read + (f"; {TWINS}" if subject.by_twins else "")


def _print_subject(
    report: Report, subject: Subject, console: Console, asked: frozenset[str]
) -> None:
    console.print(
        f"\n[bold]{subject.name}[/bold]; {counted(len(subject.specs), 'geometry', 'geometries')} "
        f"served, {len(report.declined)} declined{reservations(subject)}",
        highlight=False,
    )
    console.print(_capabilities(report, subject, asked))
    lacks = [c.name for c in subject.capabilities if c.state == "no"]
    if lacks and not asked:
        console.print(Text(f"not offered: {', '.join(lacks)}", style="dim"))
    results = report.by_law(subject.name)
    if not results:
        return
    console.print(laws_table(results))
    for verdict in profile_verdicts(report, subject):
        line = Text("  ").append(mark_of(verdict.answer)).append(f" {verdict.profile}")
        console.print(line.append(f": {verdict.lacks}" if verdict.lacks else "", style="dim"))


def _capabilities(report: Report, subject: Subject, asked: frozenset[str]) -> Table:
    table = Table("", "capability", "verdict", box=None, pad_edge=False)
    for verdict in subject.capabilities:
        if (verdict.name not in asked) if asked else (verdict.state == "no"):
            continue
        judged = Text(_judged(report, subject, verdict))
        table.add_row(mark_of(verdict.state), verdict.name, judged)
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
    return f"detected; {counted(kept, 'law')} kept{unasked}"


def laws_table(results: dict[str, list[LawResult]]) -> Table:
    """A row for each law: in how many of the geometries it was asked in it was kept."""
    table = Table("", "law", "kept in", "claim", box=None, pad_edge=False)
    for law, each in results.items():
        passed = sum(r.status in ("passed", "passed-by-fallback") for r in each)
        unasked = sum(r.status == "not asked" for r in each)
        kept = f"{passed} of {len(each) - unasked}" if unasked < len(each) else "not asked"
        kept += f", {unasked} not asked" if 0 < unasked < len(each) else ""
        table.add_row(mark_of(worst_status(each)), law, kept, Text(each[0].rule.claim))
    return table


def _unasked(report: Report) -> Iterator[Text]:
    """A line for each law and reason, and one for each core law that was never asked."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for each in report.not_asked:
        reasons.setdefault((each.subject, each.law, each.note), []).append(each.spec)
    for (subject, law, reason), specs in reasons.items():
        where = counted(len(specs), "geometry", "geometries")
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
    mark = mark_of(first.status)
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


def last_line(report: Report) -> Text:
    """How many laws were kept, broken, blocked, known to be broken and not asked."""
    if not report.executed:
        return Text("\nno law ran: nothing was proven", style="bold red")
    every = {law: worst_status(results) for law, results in report.by_law().items()}
    by_status = {law: status for law, status in every.items() if status != "not asked"}
    ran = counted(len(by_status), "law")
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


def mark_of(state: str) -> Text:
    """One character for a status of a law, or an answer, in its colour."""
    mark = _MARK[state]
    return Text(mark, style=_STYLE[mark])


def counted(n: int, one: str, many: str = "") -> str:
    """A number of things, in words."""
    return f"{n} {one if n == 1 else many or one + 's'}"
