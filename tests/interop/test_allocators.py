"""sglang's real allocators and ours give the same slots; where they do not, a clause says why."""

from __future__ import annotations

from typing import Any

import pytest

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
    | {"single, page 4, Triton kernels": PAGED, "state slots": {"alloc", "free", "group"}}
)

BREAKS: dict[str, tuple[str, object, object]] = {
    "a_token_freed_twice": (
        "SlotAllocator: freeing a slot that is free already never adds to the free ones",
        [6, [3, 4, 1, 2, 1, 2], None],
        [4, None, [3, 4, 1, 2]],
    ),
    "a_page_freed_in_halves": (
        "SlotAllocator.free: a page is free once any of its slots is freed",
        [20, [1, 1, 2, 3, 4]],
        [16, [1, 2, 3, 4]],
    ),
    "a_page_freed_in_halves_to_be_sorted": (
        "SlotAllocator.free: a page is free once any of its slots is freed",
        [20, [1, 1, 2, 3, 4]],
        [16, [1, 2, 3, 4]],
    ),
    "a_stranger_freed": (
        "SlotAllocator: the slots of the first page are never handed out",
        [-1, 0, 5],
        [],
    ),
    "a_segment_freed_twice": (
        "SlotAllocator: freeing a slot that is free already never adds to the free ones",
        [24, [1, 1, 2, 2, 3, 4]],
        [16, [1, 2, 3, 4]],
    ),
    "a_need_inside_a_page": (
        "SlotAllocator.alloc: as many slots as were asked for, in whole pages",
        [4, 5, 6, 7],
        "ValueError: need_size=6: must be a multiple of page_size=4, not negative",
    ),
    "a_tail_of_nothing": (
        "SWAAllocator.alloc_extend_swa_tail: unmapped also where the tail is empty",
        [4, 5, 6, 7, 8, 9, 10, 11, 4, 5, 6, 7],
        [0] * 12,
    ),
    "a_segment_without_peers": (
        "SWAAllocator: all paths skip locations without a peer",
        [24, [0, 0, 1, 2, 3, 4], "AssertionError"],
        [16, [1, 2, 3, 4], None],
    ),
    "a_decode_the_window_has_no_room_for": (
        "PagedAllocator: None changed nothing, in any part of a composite allocator",
        [None, 20, 0],
        [None, 24, 0],
    ),
    "a_decode_beside_a_token_without_a_peer": (
        "SlotAllocator: the slots of the first page are never handed out",
        [[10], [1]],
        [[10], [0]],
    ),
    "a_tail_from_inside_a_page": (
        "SWAAllocator.free_swa: a page is freed as a whole, and no other with it",
        {"mapped": [5, 6, 7, 8], "of them free": [5, 6, 7]},
        {"mapped": [8, 9, 10, 11], "of them free": []},
    ),
    "a_full_slot_freed_with_its_peer": (
        "SlotAllocator: a slot is free, held back or owned, also one that nobody can name",
        [16, 12],
        [16, 16],
    ),
    "a_state_slot_freed_twice": (
        "StateSlotAllocator.free: none may be free already",
        [3, [2, 1, 1]],
        [2, None],
    ),
    "a_group_left_open": (
        "StateSlotAllocator.alloc_group_begin: what was taken ahead is returned",
        2,
        4,
    ),
    "slots_taken_ahead_and_cleared": (
        "StateSlotAllocator.clear: own nothing, as when built",
        [[1], [1]],
        [[1], [2]],
    ),
}
"""A case of `allocator_faults.py`, the clause, what sglang shows and what ours does."""


@pytest.mark.parametrize("script", sorted(ALL))
def test_the_same_slots_and_sizes_step_by_step(answers: dict[str, Any], script: str) -> None:
    found = section(answers, "allocators")[script]
    assert found["differs"] is None
    assert set(found["played"]) == ALL[script]
    assert min(found["played"].values()) >= 4


def test_every_script_is_expected(answers: dict[str, Any]) -> None:
    assert set(section(answers, "allocators")) == set(ALL)


@pytest.mark.parametrize("case", sorted(BREAKS))
def test_the_clause_is_kept_where_sglang_breaks_it(answers: dict[str, Any], case: str) -> None:
    clause, real, ours = BREAKS[case]
    found = section(answers, "allocator breaks")[case]
    assert found == {"sglang": real, "kvproto": ours}, clause


def test_every_break_is_expected(answers: dict[str, Any]) -> None:
    assert set(section(answers, "allocator breaks")) == set(BREAKS)


def test_the_same_rows_for_requests(answers: dict[str, Any]) -> None:
    """Rows, table and generations of a pool; counts of one with pre-allocated rows.

    Which row comes next is no clause, and sglang's decode pool has another order than its own.
    """
    found = section(answers, "request pools")
    assert found["kvproto"] == found["sglang"]
    assert found["kvproto decode"] == found["sglang decode"]


def test_a_request_named_twice_loses_no_row(answers: dict[str, Any]) -> None:
    """RequestPool.alloc: a request that has a row keeps it."""
    assert section(answers, "request pools")["named twice"] == {"sglang": [1, 2], "kvproto": [1, 3]}
