"""What a platform's leaves owe to the core, which builds composites over them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import torch

from kvproto._bad_input import BadInput
from kvproto.protocols import (
    Declined,
    KVLeaf,
    Layout,
    MHALeafRequest,
    StateTransferable,
    SWAComposite,
    Transferable,
    supports,
)
from kvproto.reference import swa_pool

from ..broken import LawBroken
from ..kv_bench import KVBench, LayerStub
from ..law import has_layers, law
from .leaf import OWNED


@law(
    "platform.composite-over-vendor",
    KVLeaf,
    applies=has_layers,
    needs=(*OWNED, "leaf.write-read"),
    check="look at `layer_id` of the layer object only, and take a plain tensor of locations",
)
def composite_over_vendor(bench: KVBench) -> None:
    """A window pair is built over two of these leaves, whatever their class, and writes to both."""
    window = bench.sibling(bench.another())
    sides = {"full": bench, "window": window}
    count = len(bench.layer_ids)
    pool = _pair(bench, window, range(count), range(count, 2 * count))
    bench.expect("isinstance(pair, SWAComposite)", expected=True, got=_has(pool, SWAComposite))
    if _has(bench.pool, Transferable) and not _has(bench.pool, StateTransferable):
        told = _has(pool, Transferable) and _has(pool, StateTransferable)
        bench.expect("isinstance(pair, Transferable)", expected=True, got=told)
    last = bench.slots - 1
    for layer_id in range(2 * count):
        pool.set_kv_buffer(LayerStub(layer_id), torch.tensor([last]), *bench.pair(1, layer_id))
    for start, (name, side) in enumerate(sides.items()):
        for index, leaf_id in enumerate(side.layer_ids):
            pair = bench.pair(1, start * count + index)
            at = 1 if name == "window" else last
            for kind, rows in zip(side.sides, pair, strict=False):
                call = f"set_kv_buffer on a pair over {type(bench.pool).__name__}, the {name} side"
                side.expect_rows(call, kind, {at: rows[0]}, leaf_id)


@law(
    "platform.declines",
    KVLeaf,
    applies=lambda request: isinstance(request, MHALeafRequest) and has_layers(request),
    check="end the factory with `return Declined(reason)`: no None, and no exception",
)
def declines(bench: KVBench) -> None:
    """Asked for any layout there is, the factory answers with a pool or declines with a reason."""
    for layout in get_args(Layout):
        call = f"factory(MHALeafRequest(layout={layout!r}, ...))"
        try:
            answer = bench.build(replace(bench.request, layout=layout))
        except BadInput as error:
            raise LawBroken(call, expected="a pool, or Declined(reason)", got=str(error)) from error
        if isinstance(answer, Declined) and not answer.reason.strip():
            raise LawBroken(call, expected="Declined with a reason", got="an empty reason")


def _has(pool: object, capability: type) -> bool:
    return supports(pool, capability)


def _pair(full: KVBench, window: KVBench, full_ids: range, window_ids: range) -> Any:
    """The last full slot has slot 1 of the window as its peer, no other slot has one."""
    pool = swa_pool(
        full_kv_pool=full.pool,
        swa_kv_pool=window.pool,
        full_attention_layer_ids=full_ids,
        swa_attention_layer_ids=window_ids,
    )
    table = torch.zeros(full.slots + 1, dtype=torch.int64)
    table[full.slots - 1], table[-1] = 1, -1
    pool.register_mapping(table)
    return pool
