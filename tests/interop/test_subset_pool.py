"""Rows and keys of a device subset are where sglang's own pool puts them."""

from __future__ import annotations

from tests.interop import report


def test_both_pools_hold_the_same(interop_python: str) -> None:
    found = report.answers_of(interop_python, "tests.interop.subset_pool")
    assert set(found) == {"rows", "index keys", "read back", "slots of ids", "slot 0 stays zero"}
    assert set(found.values()) == {True}, found
