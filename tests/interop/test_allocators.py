"""sglang's real allocators and ours give the same slots; or it is in `differences`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.differences import DIFFERENCES
from tests.interop.report import section

SINGLE = {"alloc", "free", "free_segment", "free_segments", "group"}
PAGED = SINGLE | {"extend", "decode"}
WINDOW = {"evict_segment", "evict_set", "free_after_eviction"}
SCRIPTS = {
    "single, page 1": SINGLE,
    "single, page 4": PAGED,
    "single, page 16": PAGED,
    "pair, page 1": SINGLE | WINDOW,
    "pair, page 4": PAGED - {"alloc"} | WINDOW | {"tail"},
}
ALL = (
    SCRIPTS
    | {f"{name}, need_sort": calls for name, calls in SCRIPTS.items()}
    | {
        "single, page 4, Triton kernels": PAGED,
        "single, page 4, Triton kernels of both": PAGED,
        "pair, page 4, Triton kernels of ours": SCRIPTS["pair, page 4"],
        "state slots": {"alloc", "free", "group"},
    }
)


@pytest.mark.parametrize("script", sorted(ALL))
def test_the_same_slots_and_sizes_step_by_step(answers: dict[str, Any], script: str) -> None:
    found = section(answers, "allocators")[script]
    assert found["differs"] is None
    assert set(found["played"]) == ALL[script]
    assert min(found["played"].values()) >= 4


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    assert set(section(answers, "allocators")) == set(ALL)


def test_every_break_is_expected(answers: dict[str, Any]) -> None:
    recorded = {record.operation for record in DIFFERENCES["allocator breaks"]}
    assert set(section(answers, "allocator breaks")) == recorded


def test_the_same_rows_for_requests(answers: dict[str, Any]) -> None:
    """Rows, table and generations of a pool; counts of one with pre-allocated rows.

    Which row comes next is no clause, and sglang's decode pool has another order than its own.
    """
    found = section(answers, "request pools")
    assert found["kvproto"] == found["sglang"]
    assert found["kvproto decode"] == found["sglang decode"]
