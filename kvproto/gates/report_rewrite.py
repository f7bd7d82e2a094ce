"""What a rewrite did and what it left, for a person at a terminal (needs `rich`)."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.text import Text

from .rewrite_tree import Tree

__all__ = ["print_rewrite"]


def print_rewrite(tree: Tree, *, to: TextIO) -> None:
    """Print each gate that is left with its reason, what could not be read, and the total."""
    console = Console(file=to)
    for left in tree.left:
        place = f"left: {left.gate.file}:{left.gate.line}: {left.gate.subject}: {left.why}"
        console.print(Text(place), soft_wrap=True)
    for file, why in sorted(tree.unread.items()):
        console.print(Text(f"not read: {file}: {why}", style="bold red"), soft_wrap=True)
    console.print(Text(_total(tree), style="bold"), soft_wrap=True)


def _total(tree: Tree) -> str:
    all_of_them = tree.done + len(tree.left)
    share = f" ({tree.done / all_of_them:.1%})" if all_of_them else ""
    return (
        f"{tree.done} of {all_of_them} gates on classes rewritten{share} in "
        f"{len(tree.changed)} files; {len(tree.left)} left for a person"
    )
