"""`kvproto check --mutants`: does every law catch the faults it is about?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from ..law import LAWS
from . import MUTANTS, run_mutants
from .registry import Killed

__all__ = ["check_mutants"]


def check_mutants() -> int:
    """Print killed and total per law; 0 when all are killed and every law kills one."""
    console, errors = Console(), Console(stderr=True)
    runs = track(run_mutants(), "mutants", len(MUTANTS), console=errors, transient=True)
    by_law: dict[str, list[Killed]] = defaultdict(list)
    for killed in runs:
        by_law[killed.mutant.kills].append(killed)
    console.print(_table(by_law))
    alive = [k.mutant.name for each in by_law.values() for k in each if k.by is None]
    idle = [law for law in LAWS if not by_law[law]]
    console.print(_last_line(alive, idle))
    return 1 if alive or idle else 0


def _table(by_law: dict[str, list[Killed]]) -> Table:
    table = Table("", "law", "killed", "mutants (the public fault they repeat)", box=None)
    for law in LAWS:
        each = by_law[law]
        killed = sum(k.by is not None for k in each)
        good = bool(each) and killed == len(each)
        mark = Text("✓" if good else "✗", style="green" if good else "bold red")
        table.add_row(mark, law, f"{killed}/{len(each)}", Text(", ".join(map(_named, each))))
    return table


def _named(killed: Killed) -> str:
    mutant = killed.mutant
    return f"{mutant.name} ({mutant.source})" if mutant.source else mutant.name


def _last_line(alive: Sequence[str], idle: Sequence[str]) -> Text:
    if alive or idle:
        text = f"\nalive: {', '.join(alive) or 'none'}; laws that kill none: {', '.join(idle)}"
        return Text(text, style="bold red")
    return Text(f"\nall {len(MUTANTS)} mutants killed by the law they name", style="bold green")
