"""A scan for a person at a terminal (needs `rich`)."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from .answers import words
from .gate import Gate
from .profile import Profile
from .scan import Scan
from .summary import by_answer, by_class, by_file, by_verdict, class_gates_of, duck_gates_of

__all__ = ["print_scan"]

_MOST = 15


def print_scan(found: Scan, profile: Profile, *, every: bool) -> None:
    """Print the gates (all of them with `every`), the counts, what could not be read, the total."""
    console = Console()
    head = f"kvproto gates {found.root}: profile {profile.name}, {profile.covers}"
    console.print(Text(head), soft_wrap=True)
    if every:
        _print_gates(found.gates, console)
    most = None if every else _MOST
    by_question = by_answer(found.gates).most_common()
    rows = [(asks, answer, count) for (asks, answer), count in by_question]
    _print_counts("question", "answered by", rows, most, console)
    classes = [(name, "", count) for name, count in by_class(found.gates).most_common()]
    _print_counts("class", "", classes, most, console)
    files = [(name, "", count) for name, count in by_file(found.gates).most_common()]
    _print_counts("file", "", files, most, console)
    for file, why in sorted(found.unread.items()):
        console.print(Text(f"not read: {file}: {why}", style="bold red"), soft_wrap=True)
    console.print(Text(_total(found), style="bold"), soft_wrap=True)


def _print_gates(gates: Iterable[Gate], console: Console) -> None:
    for gate in gates:
        place = f"{gate.file}:{gate.line}: {_how(gate)} {gate.operand} : {gate.subject}"
        console.print(Text(place, style="bold"), soft_wrap=True)
        why = f" ({gate.why})" if gate.why else ""
        console.print(Text(f"    {gate.asks}{why}"), soft_wrap=True)
        console.print(Text(f"    {gate.verdict}: {words(gate.answer)}"), soft_wrap=True)


def _how(gate: Gate) -> str:
    marks = [("assert ", gate.asserted), ("typing-only ", gate.typing_only), ("hot ", gate.hot)]
    return "".join(mark for mark, there in marks if there) + gate.kind


def _print_counts(
    title: str, second: str, rows: list[tuple[str, str, int]], most: int | None, console: Console
) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("gates", justify="right")
    table.add_column(f"by {title}", overflow="fold")
    if second:
        table.add_column(second, overflow="fold")
    for name, more, count in rows[:most]:
        table.add_row(str(count), Text(name), *([Text(more)] if second else []))
    console.print(table)
    if most is not None and len(rows) > most:
        left = sum(count for _, _, count in rows[most:])
        console.print(f"  ... and {len(rows) - most} more with {left} (--list shows all)")
    console.print()


def _total(found: Scan) -> str:
    verdicts = by_verdict(found.gates)
    told = ", ".join(f"{verdicts[v]} {v}" for v in ("exact", "needs-trait", "needs-person"))
    unread = f"; {len(found.unread)} files not read" if found.unread else ""
    return (
        f"{len(found.gates)} gates in {len(by_file(found.gates))} of {found.files} files: "
        f"{len(class_gates_of(found.gates))} on classes, {len(duck_gates_of(found.gates))} on "
        f"members; {told}{unread}"
    )
