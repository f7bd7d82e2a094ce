"""What is not there is refused, and a refused call has changed nothing."""

from __future__ import annotations

from functools import partial

import torch

from kvproto.protocols import KVPool, LayerOverrideWrite, Movable, SWAComposite

from ..composite_bench import SWABench
from ..kv_bench import KVBench, LayerStub
from ..law import has_layers, law
from .leaf import OWNED, UNCHECKED

_ABSENT = (ValueError, IndexError, KeyError)


@law(
    "leaf.write-foreign",
    KVPool,
    applies=has_layers,
    needs=OWNED,
    check="look the id up before the list of buffers is indexed, in the write door too",
)
def write_foreign(bench: KVBench) -> None:
    """A write to a layer that the pool does not own raises, and no layer has changed."""
    loc, pair = torch.tensor([1]), bench.pair(1)
    for layer_id in bench.foreign_layer_ids:
        write = partial(bench.pool.set_kv_buffer, LayerStub(layer_id), loc, *pair)
        call = f"set_kv_buffer(layer {layer_id}) on a pool of layers {list(bench.layer_ids)}"
        bench.expect_raises(call, write, *_ABSENT)
        _expect_nothing(bench, call)


@law(
    "write.override-refuses",
    LayerOverrideWrite,
    KVPool,
    applies=has_layers,
    needs=("write.layer-override",),
    check="an override is an id of the pool's own range: check it as every other id",
)
def override_refuses(bench: KVBench) -> None:
    """An override that the pool does not own raises, whatever the layer object names."""
    layer, loc, pair = LayerStub(bench.layer_ids[0]), torch.tensor([1]), bench.pair(1)
    for override in bench.foreign_layer_ids:
        write = partial(bench.pool.set_kv_buffer, layer, loc, *pair, layer_id_override=override)
        call = f"set_kv_buffer(..., layer_id_override={override})"
        bench.expect_raises(call, write, *_ABSENT)
        _expect_nothing(bench, call)


@law(
    "move.out-of-range",
    Movable,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    host_only=UNCHECKED,
    check="check the largest slot of both lists before the first row is moved",
)
def move_out_of_range(bench: KVBench) -> None:
    """On the CPU a move from or to a slot past the last raises, and nothing is moved."""
    k, v = bench.pair(1)
    bench.write(torch.tensor([1]), k, v)
    for tgt, src in (([2, bench.slots], [1, 1]), ([2, 3], [1, bench.slots])):
        call = f"move_kv_cache({tgt}, {src}) on {bench.slots} rows"
        move = partial(bench.pool.move_kv_cache, torch.tensor(tgt), torch.tensor(src))
        bench.expect_raises(call, move, IndexError, ValueError)
        for side, rows in zip(bench.sides, (k, v), strict=False):
            bench.expect_rows(call, side, {1: rows[0]})


@law(
    "swa.translate-range",
    SWAComposite,
    host_only=UNCHECKED,
    check="cut the table after the full space: its further entry answers for one slot past it",
)
def translate_range(bench: SWABench) -> None:
    """On a CPU table a location past the full space raises, and is no window location."""
    for loc in (bench.slots, bench.slots + 7):
        translate = partial(bench.pool.translate_loc_from_full_to_swa, torch.tensor([1, loc]))
        call = f"translate_loc_from_full_to_swa([1, {loc}]) on {bench.slots} full slots"
        bench.expect_raises(call, translate, IndexError)


def _expect_nothing(bench: KVBench, call: str) -> None:
    for layer_id in bench.layer_ids:
        for side in bench.sides:
            bench.expect_rows(call, side, {}, layer_id)
