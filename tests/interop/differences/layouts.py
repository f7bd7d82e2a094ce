"""Rows by head, 16 bytes at a time, by page, and in envelopes of all layers."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["LAYOUTS"]

BY_HEAD = "rows by head"
VECTORS = "rows 16 bytes at a time"
BY_PAGE = "rows by page"
ENVELOPES = "envelopes of all layers"

LAYOUTS = (
    Difference(
        family=BY_HEAD,
        operation="a row by head for the reserved slot",
        clause="leaf.slot-zero",
        sglang="stored there, to be met by every masked read",
        kvproto="dropped",
        shown=Shown(7.0, 0.0),
    ),
    Difference(
        family=BY_HEAD,
        operation="a row by head for nowhere",
        clause="leaf.negative-loc",
        sglang="stored in the last slot of the last page",
        kvproto="dropped",
        shown=Shown(7.0, 0.0),
    ),
    Difference(
        family=BY_HEAD,
        operation="rows by head moved to the reserved slot",
        clause="move.slot-zero",
        sglang="lands there",
        kvproto="dropped",
        shown=Shown(7.0, 0.0),
    ),
    Difference(
        family=BY_HEAD,
        operation="rows by head exported",
        clause="Transferable.get_contiguous_buf_infos",
        sglang="an assertion: only rows that follow each other are exported",
        kvproto="an entry a layer and side; a page is a run of bytes all the same",
        shown=Shown("AssertionError", 4),
    ),
    Difference(
        family=BY_HEAD,
        operation="rows by head copied to the host",
        clause="host-copy.round-trip",
        sglang="an assertion: only rows that follow each other are copied",
        kvproto="copied and restored",
        shown=Shown("AssertionError", "restored"),
    ),
    Difference(
        family=VECTORS,
        operation="a vector layout's row for the reserved slot",
        clause="leaf.slot-zero",
        sglang="stored there: its writer skips slots below 0 only",
        kvproto="dropped",
        shown=Shown(7.0, 0.0),
    ),
    Difference(
        family=VECTORS,
        operation="a vector layout's value of another width",
        clause="leaf.write-read",
        sglang="built, and refused at the first write",
        kvproto="stored",
        shown=Shown("AssertionError", "stored"),
    ),
    Difference(
        family=VECTORS,
        operation="a vector layout's slots moved",
        clause="move.overlap",
        sglang="slots are taken for pages: another page is overwritten whole",
        kvproto="the one slot is copied",
        shown=Shown([False, False], [True, True]),
    ),
    Difference(
        family=VECTORS,
        operation="a vector layout's slots copied to the host",
        clause="host-copy.round-trip",
        sglang="slots are taken for pages, past the end of the buffer",
        kvproto="copied and restored",
        shown=Shown("IndexError", True),
    ),
    Difference(
        family=BY_PAGE,
        operation="what rows by page say they are",
        clause="traits.request",
        sglang="says that rows follow each other, and shows pages",
        kvproto="says what it shows",
        shown=Shown(["nhd", [4, 16, 3, 32]], ["paged_nhd", [4, 16, 3, 32]]),
    ),
    Difference(
        family=ENVELOPES,
        operation="slots of envelopes moved one by one",
        clause="Movable.move_kv_cache",
        sglang="takes whole pages only, and fails at other numbers of slots",
        kvproto="copies the slots that are named",
        shown=Shown("RuntimeError", True),
    ),
    Difference(
        family=ENVELOPES,
        operation="envelopes moved to the reserved page and to nowhere",
        clause="envelope.reserved",
        sglang="lands in the reserved and in the last page",
        kvproto="dropped",
        shown=Shown([False, False], [True, True]),
    ),
    Difference(
        family=ENVELOPES,
        operation="envelopes of another page size moved",
        clause="envelope.move-page-size",
        sglang="an assertion, which an optimised interpreter leaves out",
        kvproto="ValueError",
        shown=Shown("AssertionError", "ValueError"),
    ),
)
