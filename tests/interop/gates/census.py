"""The gates of sglang 0.5.23, counted before there was a scanner; see census.toml."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ABOUT", "Counted", "census", "corrected"]

HERE = Path(__file__).parent
ABOUT: dict[str, Any] = tomllib.loads((HERE / "census.toml").read_text())


@dataclass(frozen=True, slots=True, order=True)
class Counted:
    """A gate: `subject` is its classes, sorted, with a bar between, or the member."""

    file: str
    line: int
    kind: str
    subject: str
    operand: str
    structure: str


def census() -> list[Counted]:
    """As it was counted."""
    with (HERE / "census.csv").open(newline="") as file:
        return [_counted(**row) for row in csv.DictReader(file)]


def _counted(
    *, file: str, line: str, kind: str, subject: str, operand: str, structure: str
) -> Counted:
    return Counted(file, int(line), kind, subject, operand, structure)


def corrected() -> list[Counted]:
    """With what the source of sglang says otherwise."""
    return sorted([*_moved(), *(_missed(one) for one in ABOUT["missed"])])


def _moved() -> Iterator[Counted]:
    to = {(one["file"], one["line"]): one["to"] for one in ABOUT["moved"]}
    for one in census():
        line = to.get((one.file, one.line), one.line)
        yield Counted(one.file, line, one.kind, one.subject, one.operand, one.structure)


def _missed(one: dict[str, Any]) -> Counted:
    return Counted(
        one["file"], one["line"], one["kind"], one["subject"], one["operand"], structure="unjudged"
    )
