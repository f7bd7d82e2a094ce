"""Rows under block scales."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["BLOCK_SCALES"]

EIGHT = "rows in MXFP8"
FOUR = "rows in four bits, by the pool class"
RECIPE = "rows in four bits, by the recipe"
NV = "rows in NVFP4"
LATENT = "latent rows in four bits"

BY_CLASS, BY_RECIPE, BY_LATENT = "fp4 class", "fp4 recipe", "latent fp4"
FAMILY = {BY_CLASS: FOUR, BY_RECIPE: RECIPE, BY_LATENT: LATENT}
HALVES = [6.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
EVENS = [6.0, 0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0]
SCALES = [[48] * 4, [16] * 4]


def _four_bits(name: str) -> tuple[Difference, ...]:
    """What all three 4-bit pools of sglang do alike."""
    buffers = 4 if name == BY_LATENT else 8
    written, kept = [False, True] * (buffers // 2), [False] * buffers
    return (
        Difference(
            family=FAMILY[name],
            operation=f"{name}: the reserved slot",
            clause="leaf.slot-zero",
            sglang="stored there, to be met by every masked read",
            kvproto="dropped",
            shown=Shown(written, kept),
        ),
        Difference(
            family=FAMILY[name],
            operation=f"{name}: a row for nowhere",
            clause="leaf.negative-loc",
            sglang="stored in the last slot",
            kvproto="dropped",
            shown=Shown(written, kept),
        ),
        Difference(
            family=FAMILY[name],
            operation=f"{name}: halfway between two numbers",
            clause="scales.bytes",
            sglang="always up",
            kvproto="to the even one",
            shown=Shown(HALVES, EVENS),
        ),
        Difference(
            family=FAMILY[name],
            operation=f"{name}: halfway, in bfloat16",
            clause="scales.bytes",
            sglang="always up, and of rows in bfloat16 some elements are halfway",
            kvproto="to the even one",
            shown=Shown(HALVES, EVENS),
        ),
        Difference(
            family=FAMILY[name],
            operation=f"{name}: just above a scale, in bfloat16",
            clause="scales.bytes",
            sglang="its exponent is rounded in bfloat16: half the scale, the largest is cut off",
            kvproto="the scale is worked out from the exact values, and rounded up",
            shown=Shown([384.0, 32.0, 133], [384.0, 64.0, 134]),
        ),
        Difference(
            family=FAMILY[name],
            operation=f"{name}: a block with a NaN",
            clause="scales.nan",
            sglang="read as zeros",
            kvproto="read as NaN",
            shown=Shown(["0.0", "0.0"], ["nan", "nan"]),
        ),
        Difference(
            family=FAMILY[name],
            operation=f"{name}: a host copy",
            clause="host-copy.round-trip",
            sglang="without scales: read under those of the slot it comes back to",
            kvproto="scales are restored with their rows",
            shown=Shown(False, True),
        ),
        Difference(
            family=FAMILY[name],
            operation=f"{name}: the layer before the stage",
            clause="leaf.layers-foreign",
            sglang="answered with another layer",
            kvproto="ValueError",
            shown=Shown(12, "ValueError"),
        ),
    )


BLOCK_SCALES = (
    Difference(
        family=EIGHT,
        operation="mxfp8: rows in pages of 64",
        clause="leaf.write-read",
        sglang="ValueError: only pages of 128 are quantised by the pool",
        kvproto="quantised and stored, whatever the page size",
        shown=Shown("ValueError", True),
    ),
    Difference(
        family=EIGHT,
        operation="mxfp8: rows that come with scales",
        clause="scales.given",
        sglang="AssertionError on every device but CUDA",
        kvproto="stored as they are",
        shown=Shown("AssertionError", True),
    ),
    Difference(
        family=EIGHT,
        operation="mxfp8: a move to the reserved slot",
        clause="move.slot-zero",
        sglang="lands there, elements without their scales",
        kvproto="dropped",
        shown=Shown([True] * 4, [False] * 4),
    ),
    Difference(
        family=EIGHT,
        operation="mxfp8: a move of rows of 64",
        clause="move.overlap",
        sglang="RuntimeError: scales are read four at a time",
        kvproto="moved, with their scales",
        shown=Shown("RuntimeError", True),
    ),
    Difference(
        family=EIGHT,
        operation="mxfp8: waiting for scales",
        clause="scales.waits",
        sglang="handed out before their layer has arrived",
        kvproto="waits, as every read door does",
        shown=Shown([], [1]),
    ),
    Difference(
        family=EIGHT,
        operation="mxfp8: accepted drafts",
        clause="commit.prefix",
        sglang="the door is there and raises NotImplementedError",
        kvproto="stored, with their scales",
        shown=Shown("NotImplementedError", True),
    ),
    Difference(
        family=EIGHT,
        operation="mxfp8: the type of the storage",
        clause="KVLeaf.store_dtype",
        sglang="float8_e4m3fn, where every other fp8 pool says uint8",
        kvproto="uint8",
        shown=Shown(["torch.float8_e4m3fn"], ["torch.uint8"]),
    ),
    Difference(
        family=EIGHT,
        operation="mxfp8: the layer before the stage",
        clause="leaf.layers-foreign",
        sglang="answered with another layer",
        kvproto="ValueError",
        shown=Shown(384, "ValueError"),
    ),
    *_four_bits(BY_CLASS),
    Difference(
        family=FOUR,
        operation="fp4 class: values of another width",
        clause="mha.geometry",
        sglang="as wide as keys, whatever was asked for",
        kvproto="of their own width",
        shown=Shown([12, 2, 16], [12, 2, 8]),
    ),
    Difference(
        family=FOUR,
        operation="fp4 class: a move",
        clause="move.overlap",
        sglang="AssertionError: the door is there, its copy was not set up",
        kvproto="moved, with the scales",
        shown=Shown("AssertionError", True),
    ),
    Difference(
        family=FOUR,
        operation="fp4 class: descriptors",
        clause="transfer.item-len",
        sglang="AttributeError",
        kvproto="rows by page",
        shown=Shown("AttributeError", [[384] * 4, [128] * 4]),
    ),
    Difference(
        family=FOUR,
        operation="fp4 class: descriptors of scales",
        clause="transfer.complete",
        sglang="there is no list of them",
        kvproto="scales by page",
        shown=Shown("AttributeError", SCALES),
    ),
    Difference(
        family=FOUR,
        operation="fp4 class: rows given with a scale",
        clause="scales.tensor",
        sglang="divided in place",
        kvproto="left as they were",
        shown=Shown(False, True),
    ),
    *_four_bits(BY_RECIPE),
    Difference(
        family=RECIPE,
        operation="fp4 recipe: a move to the reserved slot",
        clause="move.slot-zero",
        sglang="lands there",
        kvproto="dropped",
        shown=Shown([True] * 4, [False] * 4),
    ),
    Difference(
        family=RECIPE,
        operation="fp4 recipe: descriptors of scales",
        clause="transfer.complete",
        sglang="there is no list of them",
        kvproto="scales by page",
        shown=Shown("AttributeError", SCALES),
    ),
    Difference(
        family=RECIPE,
        operation="fp4 recipe: rows stored with a scale",
        clause="scales.tensor",
        sglang="stored as if there were none",
        kvproto="divided by it",
        shown=Shown(6.0, 3.0),
    ),
    Difference(
        family=NV,
        operation="nvfp4 recipe: descriptors of scales",
        clause="transfer.complete",
        sglang="there is no list of them",
        kvproto="scales by page",
        shown=Shown("AttributeError", SCALES),
    ),
    *_four_bits(BY_LATENT),
    Difference(
        family=LATENT,
        operation="latent fp4: a move",
        clause="move.overlap",
        sglang="elements without their scales",
        kvproto="moved, with the scales",
        shown=Shown(False, True),
    ),
    Difference(
        family=LATENT,
        operation="latent fp4: sizes",
        clause="size.bytes",
        sglang="without the scales",
        kvproto="rows and scales",
        shown=Shown(576, 648),
    ),
    Difference(
        family=LATENT,
        operation="latent fp4: descriptors",
        clause="transfer.complete",
        sglang="rows only",
        kvproto="rows of all layers, then scales of all layers",
        shown=Shown([[288] * 2, [96] * 2], [[288, 288, 36, 36], [96, 96, 12, 12]]),
    ),
    Difference(
        family=LATENT,
        operation="latent fp4: the value door",
        clause="mla.value-is-prefix",
        sglang="the packed row, as if it were the latent part",
        kvproto="the latent part, dequantised like the keys",
        shown=Shown([12, 1, 24], [12, 1, 32]),
    ),
)
"""Real pools of sglang under the scripts of `block_scaled.py`."""
