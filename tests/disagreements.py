"""The rows of docs/disagreements.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WITHOUT_LAWS", "Row", "rows"]

PAGE = Path(__file__).parents[1] / "docs" / "disagreements.md"
WITHOUT_LAWS = ("later", "callers")


@dataclass(frozen=True, slots=True)
class Row:
    """A question, the members whose docstrings answer it, and what holds pools to that."""

    question: str
    sglang: str
    kvproto: str
    members: tuple[str, ...]
    held_by: str

    @property
    def laws(self) -> list[str]:
        """The ids of the laws."""
        return re.findall(r"`([\w.-]+)`", self.held_by)


def rows() -> list[Row]:
    """Every row of every table, in order."""
    cells = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines()]
    found = [row for row in cells if len(row) == 5 and row[0] not in ("question", "---")]
    return [
        Row(question, sglang, ours, tuple(re.findall(r"`([\w.]+)`", said)), held)
        for question, sglang, ours, said, held in found
    ]
