"""Pools of the NPU, on an emulated device: `tests/interop/npu_pools.py`."""

from __future__ import annotations

from .difference import Difference, Shown

__all__ = ["NPU"]

FAMILY = "planes of an Ascend device"
HEADS = ("mha", "mha by slot", "mha for fia")
SPARSE, KEYS = ("sparse", "sparse for fia"), ("keys alone", "keys alone for fia")
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
    *(
        Difference(
            family=FAMILY,
            operation=f"{name}: {what}",
            clause="declaration.raising-stub",
            sglang="advertised, and only raises",
            kvproto=told,
            shown=Shown("NotImplementedError", True),
        )
        for name in SPARSE
        for what, told in (
            ("rows moved", "moved, index rows too"),
            ("rows copied to the host and back", "copied and restored, index rows too"),
        )
    ),
    *(
        Difference(
            family=FAMILY,
            operation=f"{name}: fp8 rows written",
            clause="leaf.write-read",
            sglang=f"RuntimeError: {NO_BYTES}",
            kvproto="stored, handed over as int8",
            shown=Shown("RuntimeError", [True, True, True]),
        )
        for name in SPARSE
    ),
    Difference(
        family=FAMILY,
        operation="sparse: item lengths of sparse layers",
        clause="SparseIndexed.get_sparse_kv_buf_infos",
        sglang="as many pages as a page has tokens: rows lie by page, and are taken for tokens",
        kvproto="bytes of a page",
        shown=Shown([4194304] * 6, [32768] * 6),
    ),
    *(
        Difference(
            family=FAMILY,
            operation=f"{name}: fp8 keys written",
            clause="leaf.write-read",
            sglang=f"RuntimeError: {NO_BYTES}",
            kvproto="stored, handed over as int8",
            shown=Shown("RuntimeError", True),
        )
        for name in KEYS
    ),
    Difference(
        family=FAMILY,
        operation="keys alone: keys moved",
        clause="Movable.move_kv_cache",
        sglang="AttributeError: the inherited move is over storage that is not there",
        kvproto="keys are moved",
        shown=Shown("AttributeError", True),
    ),
    Difference(
        family=FAMILY,
        operation="keys alone: keys copied to the host and back",
        clause="declaration.raising-stub",
        sglang="advertised, and only raises",
        kvproto="copied and restored",
        shown=Shown("NotImplementedError", True),
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
