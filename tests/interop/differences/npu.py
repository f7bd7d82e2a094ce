"""Pools of the NPU, on an emulated device: `tests/interop/npu_pools.py`."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["NPU"]

FAMILY = "planes of an Ascend device"
HEADS = ("mha", "mha by slot", "mha for fia")
NO_BYTES = "bytes are handed to an operator that documents no uint8 on A2 and A3"
NO_FP8 = "fp8 is handed to an operator that documents none on A2 and A3"

NPU = (
    *(
        Difference(
            family=FAMILY,
            operation=f"{name}: rows moved",
            clause="Movable.move_kv_cache",
            sglang="AssertionError: what the inherited move copies by is never built",
            kvproto="rows are moved",
            shown=Shown("AssertionError", True),
        )
        for name in HEADS
    ),
    *(
        Difference(
            family=FAMILY,
            operation=f"{name}: rows moved",
            clause="Movable.move_kv_cache",
            sglang="AttributeError: the inherited move is over storage that was replaced",
            kvproto="rows are moved",
            shown=Shown("AttributeError", True),
        )
        for name in ("mla", "mla in nz")
    ),
    *(
        Difference(
            family=FAMILY,
            operation=f"{name}: fp8 rows written",
            clause="leaf.write-read",
            sglang=f"RuntimeError: {NO_BYTES}",
            kvproto="stored, handed over as int8",
            shown=Shown("RuntimeError", [True, True]),
        )
        for name in (*HEADS, "mla")
    ),
    Difference(
        family=FAMILY,
        operation="mla in nz: where the ninth latent of a row of float32 is",
        clause="leaf.write-read",
        sglang="32 bytes from the first: 16 elements lie together whatever their size",
        kvproto="a page of 32 bytes from the first: 32 bytes lie together",
        shown=Shown([32], [4096]),
    ),
    Difference(
        family=FAMILY,
        operation="mla in nz: rows copied to the host and back",
        clause="host-copy.round-trip",
        sglang="copies what lies where the row would be in the other order",
        kvproto="rows are restored",
        shown=Shown(False, True),
    ),
    *(
        Difference(
            family=FAMILY,
            operation=f"{name}: entries of index keys among those of rows",
            clause="Transferable.get_contiguous_buf_infos",
            sglang="index keys, and their scales, are among the rows and among the state",
            kvproto="every byte is exported once: index keys are state, by KV page",
            shown=Shown(twice, 0),
        )
        for name, twice in (("dsa", 2), ("dsa packed", 4))
    ),
    Difference(
        family=FAMILY,
        operation="dsa packed: packed rows written",
        clause="leaf.write-read",
        sglang=f"RuntimeError: {NO_FP8}",
        kvproto="stored: latents, rope, then scales, handed over as int8",
        shown=Shown("RuntimeError", [[128, 300], True, [0.0, 1.0, 2.0, 0.0]]),
    ),
    Difference(
        family=FAMILY,
        operation="dsa packed: quantised index keys written",
        clause="IndexKeyRows.set_index_k_buffer",
        sglang=f"RuntimeError: {NO_FP8}",
        kvproto="stored, handed over as int8",
        shown=Shown("RuntimeError", True),
    ),
)
