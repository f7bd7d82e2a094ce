"""The rows of docs/families.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

__all__ = ["STATUSES", "Row", "rows"]

Status = Literal["implemented", "covered", "later", "out of scope"]
STATUSES = get_args(Status)
PAGE = Path(__file__).parents[1] / "docs" / "families.md"


@dataclass(frozen=True, slots=True)
class Row:
    """A class of sglang's, what is said of it, and the dotted names of ours behind that."""

    name: str
    status: str
    said: str

    @property
    def ours(self) -> list[str]:
        """What is written as `kvproto.…`."""
        return re.findall(r"`(kvproto[\w.]+)`", self.said)


def rows() -> list[Row]:
    """Every row of every table, in order."""
    cells = (line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("| `"))
    return [Row(name.strip(" `"), is_.strip(), by.strip()) for _, name, is_, by, _ in cells]
