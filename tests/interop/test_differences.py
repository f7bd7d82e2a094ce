"""Where sglang and ours differ: each record is what the probe sees, and names a clause."""

from __future__ import annotations

from typing import Any

import pytest

from tests import clauses
from tests.interop.differences import DIFFERENCES, Difference
from tests.interop.differences.page import PAGE, rendered
from tests.interop.report import section

RECORDS = [(name, record) for name, records in DIFFERENCES.items() for record in records]
SHOWN = [
    pytest.param(name, record, id=record.operation)
    for name, record in RECORDS
    if record.shown and name != "npu"  # asked in a process of its own: test_npu_pools.py
]


@pytest.mark.parametrize(("name", "record"), SHOWN)
def test_the_clause_is_kept_where_sglang_breaks_it(
    answers: dict[str, Any], name: str, record: Difference
) -> None:
    seen = section(answers, name)[record.operation]
    assert record.shown is not None
    assert seen["ours"] == record.shown.kvproto, record.clause
    assert seen["theirs"] == record.shown.sglang, f"sglang has changed; {record.clause} kept now?"


@pytest.mark.parametrize("record", [record for _, record in RECORDS], ids=lambda r: r.operation)
def test_the_clause_exists(record: Difference) -> None:
    assert clauses.is_clause(record.clause), record.clause
    assert record.shown or clauses.is_law(record.clause), "nobody asks ours"


def test_both_sides_are_told_apart() -> None:
    for _, record in RECORDS:
        assert record.sglang
        assert record.kvproto
        assert record.sglang != record.kvproto
        assert record.shown is None or record.shown.sglang != record.shown.kvproto


def test_no_call_is_recorded_twice() -> None:
    calls = [(name, record.operation) for name, record in RECORDS]
    assert len(set(calls)) == len(calls)


def test_the_page_is_current() -> None:
    assert PAGE.read_text() == rendered(), "python -m tests.interop.differences --write"
