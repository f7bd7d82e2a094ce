"""`kvproto check --mutants`: does every law catch the faults it is about?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from kvproto._bad_input import BadInput

from ..law import LAWS, laws_named
from . import MUTANTS, run_mutants
from .registry import Killed

__all__ = ["check_mutants"]

_OTHERS = (
    *("platform", "capability", "spec", "claim", "cannot", "row-access", "expect", "laws"),
    *("seed", "json", "html"),
)
"""Options of the command that say something of other pools, or of a report of them."""


def check_mutants(arguments: argparse.Namespace) -> int:
    """Print killed and total for all laws or those asked for; 0 when each kills all of its own.

    :raises BadInput: for an option that mutants do not go with, and a law that does not exist.
    """
    _refuse_others(arguments)
    laws = [law.id for law in laws_named(arguments.law)] if arguments.law else list(LAWS)
    mutants = [mutant for mutant in MUTANTS if mutant.kills in laws]
    console, errors = Console(), Console(stderr=True)
    runs = track(run_mutants(mutants), "mutants", len(mutants), console=errors, transient=True)
    by_law: dict[str, list[Killed]] = {law: [] for law in laws}
    for killed in runs:
        by_law[killed.mutant.kills].append(killed)
    console.print(_table(by_law))
    alive = [k.mutant.name for each in by_law.values() for k in each if k.by is None]
    idle = [law for law, each in by_law.items() if not each]
    console.print(_last_line(len(mutants), alive, idle))
    return 1 if alive or idle else 0


def _refuse_others(arguments: argparse.Namespace) -> None:
    """Say so where something was asked that would change nothing."""
    given = [f"--{name}" for name in _OTHERS if vars(arguments)[name.replace("-", "_")]]
    given += ["module:factory"] if arguments.factory else []
    given += ["--device"] if arguments.device != "cpu" else []
    if given:
        raise BadInput(
            "--mutants runs the kit's own faulty pools: it goes with --law, and not with "
            + ", ".join(given)
        )


def _table(by_law: Mapping[str, Sequence[Killed]]) -> Table:
    table = Table("", "law", "killed", "mutants (the public fault they repeat)", box=None)
    for law, each in by_law.items():
        killed = sum(k.by is not None for k in each)
        good = bool(each) and killed == len(each)
        mark = Text("✓" if good else "✗", style="green" if good else "bold red")
        table.add_row(mark, law, f"{killed}/{len(each)}", Text(", ".join(map(_named, each))))
    return table


def _named(killed: Killed) -> str:
    mutant = killed.mutant
    return f"{mutant.name} ({mutant.source})" if mutant.source else mutant.name


def _last_line(count: int, alive: Sequence[str], idle: Sequence[str]) -> Text:
    if alive or idle:
        text = f"\nalive: {', '.join(alive) or 'none'}; laws that kill none: {', '.join(idle)}"
        return Text(text, style="bold red")
    return Text(f"\nall {count} mutants killed by the law they name", style="bold green")
