"""Allocators of slots, of window pairs and of state, and the request table."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["ALLOCATORS", "REQUESTS"]

SLOTS = "slot allocator"
PAIR = "window pair allocator"
STATE = "state slot allocator"

ALLOCATORS = (
    Difference(
        family=SLOTS,
        operation="a_token_freed_twice",
        clause="alloc.double-free",
        sglang="lent to two owners",
        kvproto="freed once",
        shown=Shown([6, [3, 4, 1, 2, 1, 2], None], [4, None, [3, 4, 1, 2]]),
    ),
    Difference(
        family=SLOTS,
        operation="a_page_freed_in_halves",
        clause="alloc.same-page",
        sglang="the page is free twice",
        kvproto="free once, with the first half",
        shown=Shown([20, [1, 1, 2, 3, 4]], [16, [1, 2, 3, 4]]),
    ),
    Difference(
        family=SLOTS,
        operation="a_page_freed_in_halves_to_be_sorted",
        clause="alloc.same-page",
        sglang="the page is free twice",
        kvproto="free once, with the first half",
        shown=Shown([20, [1, 1, 2, 3, 4]], [16, [1, 2, 3, 4]]),
    ),
    Difference(
        family=SLOTS,
        operation="a_stranger_freed",
        clause="alloc.stranger-free",
        sglang="the reserved page, one below it and one past the end are free",
        kvproto="ignored",
        shown=Shown([-1, 0, 5], []),
    ),
    Difference(
        family=SLOTS,
        operation="a_segment_freed_twice",
        clause="alloc.double-free",
        sglang="its pages are free twice",
        kvproto="freed once",
        shown=Shown([24, [1, 1, 2, 2, 3, 4]], [16, [1, 2, 3, 4]]),
    ),
    Difference(
        family=SLOTS,
        operation="a_need_inside_a_page",
        clause="alloc.part-of-a-page",
        sglang="fewer slots than asked for, without a word",
        kvproto="ValueError: whole pages only",
        shown=Shown(
            [4, 5, 6, 7],
            "ValueError: need_size=6: must be a multiple of page_size=4, not negative",
        ),
    ),
    Difference(
        family=PAIR,
        operation="a_tail_of_nothing",
        clause="swa-alloc.tail",
        sglang="the peers of the slots' previous owner stay",
        kvproto="no peers",
        shown=Shown([4, 5, 6, 7, 8, 9, 10, 11, 4, 5, 6, 7], [0] * 12),
    ),
    Difference(
        family=PAIR,
        operation="a_segment_without_peers",
        clause="swa-alloc.segment-unmapped",
        sglang="the window's reserved page is freed, twice, and then an assertion fails",
        kvproto="slots without a peer are skipped",
        shown=Shown([24, [0, 0, 1, 2, 3, 4], "AssertionError"], [16, [1, 2, 3, 4], None]),
    ),
    Difference(
        family=PAIR,
        operation="a_decode_the_window_has_no_room_for",
        clause="alloc.all-or-nothing",
        sglang="None, and a full page is lost",
        kvproto="None, and nothing has changed",
        shown=Shown([None, 20, 0], [None, 24, 0]),
    ),
    Difference(
        family=PAIR,
        operation="a_decode_beside_a_token_without_a_peer",
        clause="alloc.range",
        sglang="the peer is a slot of the reserved page",
        kvproto="no peer either",
        shown=Shown([[10], [1]], [[10], [0]]),
    ),
    Difference(
        family=PAIR,
        operation="a_tail_from_inside_a_page",
        clause="swa-alloc.page-lifetime",
        sglang="mapped tokens lie on window pages that are free",
        kvproto="none does",
        shown=Shown(
            {"mapped": [5, 6, 7, 8], "of them free": [5, 6, 7]},
            {"mapped": [8, 9, 10, 11], "of them free": []},
        ),
    ),
    Difference(
        family=PAIR,
        operation="a_full_slot_freed_with_its_peer",
        clause="swa-alloc.free-full",
        sglang="the window page is lost; its check is off by default",
        kvproto="the window page goes with it",
        shown=Shown([16, 12], [16, 16]),
    ),
    Difference(
        family=STATE,
        operation="a_state_slot_freed_twice",
        clause="state-slots.double-free",
        sglang="lent to two owners",
        kvproto="freed once",
        shown=Shown([3, [2, 1, 1]], [2, None]),
    ),
    Difference(
        family=STATE,
        operation="a_group_left_open",
        clause="state-slots.group",
        sglang="the slots taken ahead are lost",
        kvproto="they come back",
        shown=Shown(2, 4),
    ),
    Difference(
        family=STATE,
        operation="slots_taken_ahead_and_cleared",
        clause="state-slots.group",
        sglang="a slot is lent twice",
        kvproto="lent once",
        shown=Shown([[1], [1]], [[1], [2]]),
    ),
)

REQUESTS = (
    Difference(
        family="request table",
        operation="named twice",
        clause="request.named-twice",
        sglang="takes two rows, and one is lost",
        kvproto="takes one",
        shown=Shown([1, 2], [1, 3]),
    ),
)
