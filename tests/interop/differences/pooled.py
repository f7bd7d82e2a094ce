"""Index keys of several tokens."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["POOLED"]

GROUPS = "index keys of several tokens"

POOLED = (
    Difference(
        family=GROUPS,
        operation="a decoded token for nowhere",
        clause="kpool.padding",
        sglang="counted: only location 0 is padding",
        kvproto="dropped",
        shown=Shown(True, False),
    ),
    Difference(
        family=GROUPS,
        operation="a tail for the padding row",
        clause="kpool.prefill-tail",
        sglang="stored there",
        kvproto="dropped",
        shown=Shown(True, False),
    ),
    Difference(
        family=GROUPS,
        operation="a tail for no row at all",
        clause="kpool.prefill-tail",
        sglang="stored in the last request's ring",
        kvproto="dropped",
        shown=Shown(True, False),
    ),
    Difference(
        family=GROUPS,
        operation="rings of the layer before the stage",
        clause="kpool.rings",
        sglang="those of the stage's last layer",
        kvproto="ValueError",
        shown=Shown(True, "ValueError"),
    ),
    Difference(
        family=GROUPS,
        operation="bytes of the rings in the reported size",
        clause="size.bytes",
        sglang="left out",
        kvproto="counted",
        shown=Shown(0, 12288),
    ),
    Difference(
        family=GROUPS,
        operation="moving tokens that share an index key",
        clause="indexer.group-move",
        sglang="advertised, and stops on an assertion",
        kvproto="not offered",
        shown=Shown(True, False),
    ),
    Difference(
        family=GROUPS,
        operation="a request's rings copied to the host",
        clause="kpool.host-copy",
        sglang="waits for a CUDA device, whatever the pool's device is",
        kvproto="copied and restored",
        shown=Shown("AssertionError", True),
    ),
)
"""The pooled leaf under the scripts of `pooled.py`."""
