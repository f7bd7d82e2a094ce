"""The table of public faults names laws that exist, and that kill a mutant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvproto.conformance import LAWS
from kvproto.conformance.mutants import MUTANTS

PAGE = Path(__file__).parents[2] / "docs" / "cases.md"
ROWS = {
    cells[1].strip(): set(re.findall(r"`([\w.-]+)`", cells[3]))
    for line in PAGE.read_text().splitlines()
    if len(cells := line.split("|")) == 5 and "#" in cells[1]
}
KILLING = {mutant.kills for mutant in MUTANTS}


def test_the_table_was_read() -> None:
    assert len(ROWS) == 26


@pytest.mark.parametrize("report", ROWS)
def test_each_fault_has_laws_that_kill(report: str) -> None:
    assert ROWS[report]
    assert ROWS[report] <= set(LAWS)
    assert ROWS[report] <= KILLING


@pytest.mark.parametrize("report", ROWS)
def test_mutants_of_a_fault_are_killed_by_a_law_of_its_row(report: str) -> None:
    killed_by = {mutant.kills for mutant in MUTANTS if mutant.source == report}
    assert killed_by & ROWS[report]
