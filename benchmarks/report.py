"""How a benchmark shows its ratios: on the terminal, and as a section of docs/benchmarks.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import torch

__all__ = [
    "machine_facts",
    "markdown_table",
    "not_compared",
    "print_table",
    "verdict",
    "write_section",
]

Row = tuple[str, ...]

_PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_HEAD = "# Benchmarks\n\nWritten by the commands shown; only the ratios travel between machines.\n"


def machine_facts() -> str:
    """Cores, Python and torch of this machine, in one line."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{os.cpu_count()} {platform.machine()} cores, {python}, torch {torch.__version__}"


def print_table(title: str, header: Row, rows: Sequence[Row]) -> None:
    """With rich where it is installed, else in plain columns; never wrapped."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ModuleNotFoundError:
        print(title, _columns([header, *rows]), sep="\n")
        return
    table = Table(*header, title=title, title_justify="left", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console(width=sum(_widths([header, *rows])) + 2 * len(header), markup=False).print(table)


def markdown_table(header: Row, rows: Sequence[Row]) -> str:
    """The same rows for a page."""
    rule = ("---",) * len(header)
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def verdict(missed: Sequence[str]) -> str:
    """A line for every demand that is not met."""
    return "\n".join(f"Missed: {line}." for line in missed) or "All as demanded."


def not_compared() -> int:
    """Say that sglang was not there: nothing is written then, and it is no success."""
    print("not compared with sglang: nothing was demanded, and nothing is written")
    return 2


def write_section(name: str, body: str, page: Path = _PAGE) -> None:
    """Put `body` in place of what this benchmark wrote before; other sections stay."""
    start, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    text = page.read_text() if page.exists() else _HEAD
    section = f"{start}\n{body}\n{end}\n"
    if start in text:
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end + "\n")
        page.write_text(before + section + after)
    else:
        page.write_text(f"{text}\n{section}")


def _columns(rows: Sequence[Row]) -> str:
    widths = _widths(rows)
    padded = ([cell.ljust(w) for cell, w in zip(row, widths, strict=True)] for row in rows)
    return "\n".join("  ".join(cells) for cells in padded)


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]
