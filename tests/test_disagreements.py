"""The page of disagreements names members and laws that exist, and hides nothing that is served."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import kvproto.reference
from kvproto import protocols
from tests import clauses
from tests.disagreements import PAGE, WITHOUT_LAWS, Row, rows

LATER = [row for row in rows() if row.held_by == "later"]
PARAMETERS = {protocols.WriteLocation}
"""Protocols of what callers pass in."""
REFERENCE = [thing for thing in vars(kvproto.reference).values() if isinstance(thing, type)]


def test_every_line_of_a_table_was_read() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    heads = [line for line in lines if line.startswith(("| question", "| ---"))]
    assert len(rows()) == len(lines) - len(heads)


def test_no_question_is_asked_twice() -> None:
    assert [q for q, times in Counter(row.question for row in rows()).items() if times > 1] == []


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.question)
def test_what_answers_a_question_exists(row: Row) -> None:
    assert row.sglang
    assert row.kvproto
    assert row.members
    assert [name for name in row.members if not clauses.is_member(name)] == []
    assert [name for name in row.laws if not clauses.is_law(name)] == []
    assert bool(row.laws) != (row.held_by in WITHOUT_LAWS)


@pytest.mark.parametrize("row", LATER, ids=lambda row: row.question)
def test_what_comes_later_is_not_there(row: Row) -> None:
    asked: list[Any] = [getattr(protocols, name.partition(".")[0]) for name in row.members]
    served = {p: [c for c in REFERENCE if issubclass(c, p)] for p in asked if p not in PARAMETERS}
    assert not all(served.values()), "all of it is served: which laws hold pools to it?"
