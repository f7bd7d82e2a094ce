"""Moving tokens between slots."""

from __future__ import annotations

import torch

from kvproto.protocols import KVPool, Movable

from ..kv_bench import KVBench
from ..law import has_layers, law
from .leaf import OWNED


@law(
    "move.overlap",
    Movable,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="gather all sources into a copy before the first target is written",
)
def overlap(bench: KVBench) -> None:
    """A move reads all sources before it writes a target, in every layer."""
    for tgt, src in (([1, 2, 3], [2, 3, 4]), ([2, 3, 4], [1, 2, 3])):
        for layer_id in bench.layer_ids:
            bench.write(torch.tensor([1, 2, 3, 4]), *bench.pair(4, layer_id=layer_id), layer_id)
        bench.pool.move_kv_cache(torch.tensor(tgt), torch.tensor(src))
        for layer_id in bench.layer_ids:
            pair = bench.pair(4, layer_id=layer_id)
            for side, rows in zip(bench.sides, pair, strict=False):
                expected = {slot: rows[slot - 1] for slot in (1, 2, 3, 4)}
                expected |= {t: rows[s - 1] for t, s in zip(tgt, src, strict=True)}
                bench.expect_rows(f"move_kv_cache({tgt}, {src})", side, expected, layer_id)


@law(
    "move.slot-zero",
    Movable,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    check="targets of 0 and -1 come from slots that have no peer; drop them",
)
def slot_zero(bench: KVBench) -> None:
    """Moving to the reserved slot or to -1 changes nothing, and neither does an empty move."""
    k, v = bench.pair(2)
    bench.write(torch.tensor([1, 2]), k, v)
    bench.pool.move_kv_cache(torch.tensor([0, -1]), torch.tensor([1, 2]))
    bench.pool.move_kv_cache(*(torch.empty(0, dtype=torch.int64) for _ in range(2)))
    for side, rows in zip(bench.sides, (k, v), strict=False):
        bench.expect_rows("move_kv_cache([0, -1], [1, 2])", side, {1: rows[0], 2: rows[1]})
