"""Window layers alone, ids over a smaller device, rows with state, and rings."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["ACCOUNTS"]

PURE = "allocator of window layers alone"
DEVICE = "device subset allocator"
ROWS = "request table with state"
RINGS = "allocator beside rings"

ACCOUNTS = (
    Difference(
        family=PURE,
        operation="a_peer_of_an_evicted_slot",
        clause="pure-swa.identity",
        sglang="the slot itself, which may be another request's",
        kvproto="none",
        shown=Shown([1, 2], [0, 2]),
    ),
    Difference(
        family=PURE,
        operation="a_negative_slot_translated",
        clause="pure-swa.translate",
        sglang="comes back as it was, below -1 too",
        kvproto="-1",
        shown=Shown([-1, -5], [-1, -1]),
    ),
    Difference(
        family=PURE,
        operation="a_tail_of_window_layers_alone",
        clause="pure-swa.tail",
        sglang="NotImplementedError",
        kvproto="slots for the tail, 0 before it",
        shown=Shown("NotImplementedError", [0, 0, 1, 2]),
    ),
    Difference(
        family=PURE,
        operation="a_window_slot_freed_twice",
        clause="alloc.double-free",
        sglang="both slots are free twice",
        kvproto="freed once",
        shown=Shown(6, 4),
    ),
    Difference(
        family=DEVICE,
        operation="a_decoded_id_without_pages",
        clause="alloc.decode-continues",
        sglang="the id that is lent stays free",
        kvproto="owned",
        shown=Shown([[2], 7], [[2], 6]),
    ),
    Difference(
        family=DEVICE,
        operation="whole_pages_of_a_device_subset",
        clause="SlotAllocator.alloc",
        sglang="NotImplementedError",
        kvproto="ids with device slots",
        shown=Shown("NotImplementedError", [4, 5, 6, 7, 8, 9, 10, 11]),
    ),
    Difference(
        family=DEVICE,
        operation="a_group_over_a_device_subset",
        clause="alloc.group",
        sglang="holds nothing back",
        kvproto="held back until its end, on both sides",
        shown=Shown([16, 16], [12, 16]),
    ),
    Difference(
        family=DEVICE,
        operation="a_prompt_that_goes_on_beside_a_decoded_token",
        clause="hisparse-alloc.logical-only",
        sglang="the ids that follow have slots of the reserved page",
        kvproto="they have none up to the page's end",
        shown=Shown([4, 0, 1, 2], [4, 0, 0, 0]),
    ),
    Difference(
        family=DEVICE,
        operation="a_device_page_freed_by_one_of_its_ids",
        clause="hisparse-alloc.free-device",
        sglang="the page's other ids share it with the next request",
        kvproto="they lose their slots with it",
        shown=Shown([[0, 5, 6, 7], [4, 5, 6, 7]], [[0, 0, 0, 0], [4, 5, 6, 7]]),
    ),
    Difference(
        family=DEVICE,
        operation="a_buffer_that_does_not_fit",
        clause="HiSparseAllocator.alloc_device_buffer",
        sglang="AssertionError, and the request's device page is lost",
        kvproto="None, and nothing has changed",
        shown=Shown(["AssertionError", [0, 0, 0, 0], 12], [None, [4, 5, 6, 7], 12]),
    ),
    Difference(
        family=ROWS,
        operation="state_slots_for_half_of_a_batch",
        clause="state-rows.all-or-nothing",
        sglang="AssertionError, with rows and the last state slot given away",
        kvproto="None, and nothing has changed",
        shown=Shown(["AssertionError", 2, 0, [3, 4]], [None, 4, 1, [None, None]]),
    ),
    Difference(
        family=ROWS,
        operation="a_batch_of_no_request",
        clause="request.empty-batch",
        sglang="RuntimeError",
        kvproto="no rows",
        shown=Shown("RuntimeError", []),
    ),
    Difference(
        family=ROWS,
        operation="rows_after_clear_on_a_decode_instance",
        clause="state-rows.clear",
        sglang="a row that nobody has keeps its state slot",
        kvproto="slot 0",
        shown=Shown([1], [0]),
    ),
    Difference(
        family=ROWS,
        operation="state_slots_asked_of_a_clone",
        clause="StateRequestPool.mamba_allocator",
        sglang="an allocator of its own, to which all slots are free",
        kvproto="the same allocator, as the rows are the same",
        shown=Shown([8, 9], [8, 8]),
    ),
    Difference(
        family=RINGS,
        operation="the_size_beside_rings",
        clause="SlotAllocator.available_size",
        sglang="more is available than its size",
        kvproto="the size is that of the full side",
        shown=Shown([40, 96], [96, 96]),
    ),
)
