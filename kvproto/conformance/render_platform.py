"""A report on a platform for a person at a terminal (needs `rich`, the `check` extra)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from kvproto.protocols import Platform

from .capability_cells import NOWHERE, Cell, side_by_side
from .platform_parts import is_of_platforms
from .render import (
    counted,
    last_line,
    laws_table,
    mark_of,
    print_claims,
    print_failures,
    print_unasked,
    reservations,
)
from .report import Report, Subject
from .worst import worst_status

__all__ = ["print_capabilities", "print_platform"]

_MARK_OF = {
    "kept": "yes",
    "known": "expected",
    "broken": "no",
    "offered": "yes",
    "declined": "declined",
    "not offered": "not offered",
    "not judged": "not asked",
}


def print_platform(report: Report, console: Console) -> None:
    """Print what it has of each capability, its parts, its models, what was declined, failures."""
    console.print(Text(report.command, style="bold"))
    if report.place:
        console.print(Text(f"{_name(report)}: {report.place}"), soft_wrap=True)
    parts = [each for each in report.subjects if not each.has(Platform.__name__)]
    models = [each for each in report.subjects if each.has(Platform.__name__)]
    if parts:
        console.print()
        print_capabilities({_name(report): report}, console)
        console.print(_parts(report, parts))
        print_unasked(report, console)
    if models:
        _print_models(report, models, console)
    print_claims(report, console)
    _print_declined(report, console)
    print_failures(report, console)
    console.print(last_line(report))


def print_capabilities(reports: Mapping[str, Report], console: Console) -> None:
    """Print platforms x capabilities; beside a single platform each cell says all it knows.

    Capabilities that no platform was asked for in this run are left out.
    """
    cells = side_by_side(reports)
    asked = [
        name
        for name in next(iter(cells.values()))
        if any(_is_told(each[name]) for each in cells.values())
    ]
    if len(cells) == 1:
        (only,) = cells.values()
        table = Table("", "capability", "verdict", box=None, pad_edge=False)
        for name in asked:
            table.add_row(_mark(only[name]), name, Text(_said(only[name])))
        console.print(table)
        return
    table = Table(Column("capability", no_wrap=True), *cells, box=None, pad_edge=False)
    for name in asked:
        table.add_row(name, *(_short(each[name]) for each in cells.values()))
    console.print(table)
    for platform, each in cells.items():
        for said, names in _reasons({name: each[name] for name in asked}).items():
            console.print(Text(f"{platform}: {', '.join(names)}: {said}"), soft_wrap=True)


def _is_told(cell: Cell) -> bool:
    return cell is not NOWHERE and (cell.state != "not judged" or bool(cell.laws))


def _reasons(cells: Mapping[str, Cell]) -> dict[str, list[str]]:
    """What is said of cells that are more than a mark, and of which."""
    reasons: dict[str, list[str]] = {}
    for name, cell in cells.items():
        if cell.state not in ("kept", "offered"):
            reasons.setdefault(_said(cell), []).append(name)
    return reasons


def _said(cell: Cell) -> str:
    match cell.state:
        case "kept":
            return f"kept ({counted(len(cell.laws), 'law')})"
        case "broken" | "known":
            known = ", as announced" if cell.state == "known" else ""
            why = f": {cell.why}" if cell.why else ""
            return f"breaks {', '.join(cell.laws)}{known}{why}"
        case _:
            return f"{cell.state}: {cell.why}"


def _short(cell: Cell) -> Text:
    text = f" {len(cell.laws)}" if cell.state == "kept" else f" {cell.state}"
    return _mark(cell).append(text, style="default")


def _mark(cell: Cell) -> Text:
    return mark_of(_MARK_OF[cell.state])


def _parts(report: Report, parts: Sequence[Subject]) -> Table:
    table = Table("", "\nbuilt", "\ngeometries", "\nlaws", box=None, pad_edge=False)
    for subject in parts:
        results = report.by_law(subject.name)
        if not results:
            continue
        every = {law: worst_status(each) for law, each in results.items()}
        kept = sum(status in ("passed", "passed-by-fallback") for status in every.values())
        asked = sum(status != "not asked" for status in every.values())
        whole = worst_status(r for each in results.values() for r in each)
        laws = f"{kept} of {asked} kept{reservations(subject)}"
        table.add_row(mark_of(whole), subject.name, str(len(subject.specs)), laws)
    return table


def _print_models(report: Report, models: Sequence[Subject], console: Console) -> None:
    """The laws, and a row of them for each model."""
    by_law = {
        law: [r for r in results if is_of_platforms(r.rule)]
        for law, results in report.by_law().items()
        if is_of_platforms(results[0].rule)
    }
    served = sum(len(subject.specs) for subject in models)
    console.print(
        f"\n{counted(len(models), 'model')} in {counted(served, 'deployment')}", highlight=False
    )
    console.print(laws_table(by_law))
    columns = ", ".join(f"{number} {law}" for number, law in enumerate(by_law, start=1))
    console.print(f"columns: {columns}", highlight=False)
    # The columns are numbers of laws: names are wider than marks.
    numbers = [f"\n{n}" for n in range(1, len(by_law) + 1)]
    table = Table("\nmodel", *numbers, box=None, pad_edge=False)
    for subject in models:
        results = report.by_law(subject.name)
        marks = [mark_of(worst_status(results[law])) if law in results else "" for law in by_law]
        table.add_row(subject.name, *marks)
    console.print(table)


def _print_declined(report: Report, console: Console) -> None:
    """A line for each reason."""
    console.print(f"\n{len(report.declined)} declined", highlight=False)
    for reason in dict.fromkeys(reason for _, reason in report.declined):
        names = [name for name, told in report.declined if told == reason]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        console.print(Text(f"declined {names[0]}{more}: {reason}", style="dim"))


def _name(report: Report) -> str:
    return report.target.removeprefix("--platform ")
