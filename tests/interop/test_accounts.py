"""sglang's accounts beside the plain ones and ours give the same; or it is in `differences`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.differences import DIFFERENCES
from tests.interop.report import section

PURE = {
    "alloc", "group", "free", "free_segment", "free_segments", "evict_set", "evict_segment",
}  # fmt: skip
DEVICE = {"prefill", "logical", "decode", "buffer", "free_buffer", "free_device", "release"}
BESIDE = {
    "extend", "decode", "tail", "row", "evict", "group", "free", "free_segment", "free_segments",
}  # fmt: skip
ROWS = {"alloc", "again", "fork", "finish", "donate", "evict"}
SORTED = {
    "window layers alone": PURE,
    "device subset": DEVICE,
    "beside rings": BESIDE,
}
ALL = (
    SORTED
    | {f"{name}, need_sort": calls for name, calls in SORTED.items()}
    | {
        f"rows with state{how}": ROWS
        for how in ("", ", snapshots", ", one snapshot", ", lazy snapshots")
    }
    | {"rings": {"rows"}, "pages of ranks": {"alloc", "free"}}
)


@pytest.mark.parametrize("script", sorted(ALL))
def test_the_same_step_by_step(answers: dict[str, Any], script: str) -> None:
    found = section(answers, "accounts")[script]
    assert found["differs"] is None
    assert set(found["played"]) == ALL[script]
    assert min(found["played"].values()) >= 4


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    assert set(section(answers, "accounts")) == set(ALL)


def test_every_break_is_expected(answers: dict[str, Any]) -> None:
    recorded = {record.operation for record in DIFFERENCES["account breaks"]}
    assert set(section(answers, "account breaks")) == recorded
