"""Main rows with index rows beside them."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["SPARSE"]

INDEX_ROWS = "rows with index rows beside them"

SPARSE = (
    Difference(
        family=INDEX_ROWS,
        operation="an index key for the reserved slot",
        clause="sparse.guards",
        sglang="stored there",
        kvproto="dropped",
        shown=Shown([1.0, 1.0], [0.0, 1.0]),
    ),
    Difference(
        family=INDEX_ROWS,
        operation="an index key for nowhere",
        clause="sparse.guards",
        sglang="stored in the last slot",
        kvproto="dropped",
        shown=Shown([1.0, 1.0], [0.0, 1.0]),
    ),
    Difference(
        family=INDEX_ROWS,
        operation="index values for a layer without them",
        clause="sparse.refuses",
        sglang="ValueError, with the main rows written already",
        kvproto="ValueError, nothing is written",
        shown=Shown(["ValueError", True], ["ValueError", False]),
    ),
    Difference(
        family=INDEX_ROWS,
        operation="scales of a fused write",
        clause="sparse.scales",
        sglang="divided into the caller's tensors",
        kvproto="the caller's tensors stay as they are",
        shown=Shown([8.0, 8.0], [4.0, 4.0]),
    ),
    Difference(
        family=INDEX_ROWS,
        operation="main rows of the layer before the stage",
        clause="leaf.layers-foreign",
        sglang="those of the stage's last layer",
        kvproto="ValueError",
        shown=Shown(True, "ValueError"),
    ),
    Difference(
        family=INDEX_ROWS,
        operation="tokens moved with their index rows",
        clause="declaration.raising-stub",
        sglang="advertised, and only raises",
        kvproto="moved, index rows too",
        shown=Shown("NotImplementedError", True),
    ),
    Difference(
        family=INDEX_ROWS,
        operation="tokens copied to the host with their index rows",
        clause="declaration.raising-stub",
        sglang="advertised, and only raises",
        kvproto="copied and restored, index rows too",
        shown=Shown("NotImplementedError", True),
    ),
)
"""The sparse pool under the scripts of `sparse.py`."""
