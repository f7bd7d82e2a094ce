"""A report for a person at a terminal (needs `rich`, the `check` extra)."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .capabilities import CapabilityVerdict
from .law import LAWS
from .report import LawResult, Report

__all__ = ["print_report"]

_MARK = {"passed": "✓", "failed": "✗", "blocked": "-", "yes": "✓", "no": "·", "half": "✗"}
_STYLE = {"✓": "green", "✗": "bold red", "-": "yellow", "·": "dim"}


def print_report(report: Report, console: Console, *, asked: frozenset[str] = frozenset()) -> None:
    """Print what was run, the verdict per capability, the laws, each failure, the last line.

    `asked` names the only capabilities to show, explained member by member where absent.
    """
    console.print(Text(f"kvproto check {report.target}", style="bold"))
    console.print(
        f"pool {report.pool}; {_count(len(report.served), 'geometry', 'geometries')} served, "
        f"{len(report.declined)} declined; bytes read through {report.oracle}",
        highlight=False,
    )
    console.print(_capabilities(report, asked))
    lacks = [c.name for c in report.capabilities if c.state == "no"]
    if lacks and not asked:
        console.print(Text(f"not offered: {', '.join(lacks)}", style="dim"))
    if report.results:
        console.print(_laws(report))
    for results in report.by_law().values():
        failed = [result for result in results if result.status == "failed"]
        if failed:
            _print_failure(report, failed, len(results), console)
    console.print(_last_line(report))


def _capabilities(report: Report, asked: frozenset[str]) -> Table:
    table = Table("", "capability", "verdict", box=None, pad_edge=False, title_justify="left")
    for verdict in report.capabilities:
        if (verdict.name not in asked) if asked else (verdict.state == "no"):
            continue
        table.add_row(_mark(verdict.state), verdict.name, Text(_judged(report, verdict)))
    return table


def _judged(report: Report, verdict: CapabilityVerdict) -> str:
    if verdict.state != "yes":
        half = "half offered" if verdict.state == "half" else "not offered"
        return f"{half}: {'; '.join(verdict.reasons)}"
    bound = {
        law
        for law, rule in LAWS.items()
        if verdict.name in {capability.__name__ for capability in rule.capabilities}
    }
    results = [r for r in report.results if r.law in bound]
    broken = sorted({r.law for r in results if r.status == "failed"})
    if broken:
        return f"detected; breaks {', '.join(broken)}"
    if any(r.status == "blocked" for r in results):
        return "detected; not judged, its laws were blocked"
    ran = len({r.law for r in results})
    return f"detected; {_count(ran, 'law')} kept" if ran else "detected; no law in this run"


def _laws(report: Report) -> Table:
    table = Table("", "law", "geometries", "claim", box=None, pad_edge=False)
    for law, results in report.by_law().items():
        passed = sum(r.status == "passed" for r in results)
        worst = next(
            (s for s in ("failed", "blocked") if any(r.status == s for r in results)), "passed"
        )
        table.add_row(_mark(worst), law, f"{passed}/{len(results)}", Text(results[0].rule.claim))
    return table


def _print_failure(report: Report, failed: list[LawResult], tried: int, console: Console) -> None:
    first = failed[0]
    if first.finding is None:
        return
    lines = {
        "claim": first.rule.claim,
        "where": f"{first.spec}, and {len(failed) - 1} more of {tried} geometries"
        if len(failed) > 1
        else first.spec,
        "call": first.finding.call,
        "expected": first.finding.expected,
        "got": first.finding.got,
        "check": first.rule.check,
        "again": f"kvproto check {report.target} --law {first.law} --spec {first.spec}",
    }
    console.print()
    console.print(Text(f"✗ {first.law}", style="bold red"))
    grid = Table.grid(padding=(0, 2))
    for name, text in lines.items():
        grid.add_row(Text(f"  {name}", style="dim"), Text(text, overflow="fold"))
    console.print(grid)


def _last_line(report: Report) -> Text:
    broken = {result.law for result in report.failures}
    blocked = {r.law for r in report.results if r.status == "blocked"} - broken
    ran = len(report.by_law())
    if not report.results:
        return Text("\nno law ran: nothing was proven", style="bold red")
    if broken:
        note = f", {len(blocked)} blocked" if blocked else ""
        return Text(f"\n{len(broken)} of {_count(ran, 'law')} broken{note}", style="bold red")
    return Text(f"\nall {_count(ran, 'law')} kept", style="bold green")


def _mark(state: str) -> Text:
    mark = _MARK[state]
    return Text(mark, style=_STYLE[mark])


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n} {one if n == 1 else many or one + 's'}"
