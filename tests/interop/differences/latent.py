"""Latent rows, with and without index keys."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["LATENT"]

ZEROS = [0.0] * 8
ROWS = "latent rows"
INDEXED = "latent rows with index keys"

LATENT = (
    Difference(
        family=ROWS,
        operation="a whole row for the reserved slot",
        clause="leaf.slot-zero",
        sglang="stored there, to be met by every masked read",
        kvproto="dropped",
        shown=Shown([7.0, *ZEROS[:2], 7.0, *ZEROS[:8]], [*ZEROS[:3], 7.0, *ZEROS[:8]]),
    ),
    Difference(
        family=ROWS,
        operation="a row for nowhere",
        clause="leaf.negative-loc",
        sglang="stored in the last slot",
        kvproto="dropped",
        shown=Shown([7.0, 7.0], [0.0, 7.0]),
    ),
    Difference(
        family=ROWS,
        operation="a move to the reserved slot and to nowhere",
        clause="move.slot-zero",
        sglang="lands in the reserved and in the last slot",
        kvproto="dropped",
        shown=Shown(
            [7.0, *ZEROS[:2], 7.0, *ZEROS[:7], 7.0],
            [*ZEROS[:3], 7.0, *ZEROS[:8]],
        ),
    ),
    Difference(
        family=ROWS,
        operation="a row too narrow",
        clause="leaf.row-width",
        sglang="spread over the slot",
        kvproto="ValueError",
        shown=Shown([5.0] * 24, "ValueError"),
    ),
    Difference(
        family=ROWS,
        operation="a large number in e4m3fnuz",
        clause="fp8.saturates",
        sglang="stored as NaN",
        kvproto="stored as the largest number",
        shown=Shown(0x80, 0x7F),
    ),
    Difference(
        family=ROWS,
        operation="the layer before the stage",
        clause="leaf.layers-foreign",
        sglang="answered with another layer",
        kvproto="ValueError",
        shown=Shown(True, "ValueError"),
    ),
    Difference(
        family=ROWS,
        operation="a fifth argument by position",
        clause="LayerOverrideWrite.set_kv_buffer",
        sglang="a scale, on every other leaf, picks the layer that is written",
        kvproto="TypeError: options are keyword arguments",
        shown=Shown([0.0, 7.0], "TypeError"),
    ),
    Difference(
        family=INDEXED,
        operation="a whole row into packed rows",
        clause="leaf.write-read",
        sglang="the door is there and asserts",
        kvproto="quantized and stored",
        shown=Shown("AssertionError", [0x7E, 0x7E]),
    ),
    Difference(
        family=INDEXED,
        operation="a block of zeros in a packed row",
        clause="mla.packed-zeros",
        sglang="zeros become -448 times a scale of 0.0, and read as -0.0",
        kvproto="stored as zeros",
        shown=Shown([0x00, 0xFE], [0x00]),
    ),
    Difference(
        family=INDEXED,
        operation="an index key for the reserved slot",
        clause="indexer.guards",
        sglang="stored there",
        kvproto="dropped",
        shown=Shown(True, False),
    ),
    Difference(
        family=INDEXED,
        operation="index keys of a strided tensor",
        clause="indexer.inputs",
        sglang="AssertionError",
        kvproto="stored like their copy",
        shown=Shown("AssertionError", True),
    ),
    Difference(
        family=INDEXED,
        operation="index keys of the layer before the stage",
        clause="indexer.layers-foreign",
        sglang="answered with another layer",
        kvproto="ValueError",
        shown=Shown(True, "ValueError"),
    ),
    Difference(
        family=INDEXED,
        operation="a host copy of rows with index keys",
        clause="indexer.host-copy",
        sglang="synchronizes CUDA, so it fails on every other device",
        kvproto="rows and index keys are restored, and no other slot's",
        shown=Shown("AssertionError", [True, True]),
    ),
)
