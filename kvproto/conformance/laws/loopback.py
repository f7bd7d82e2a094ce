"""Pages from one pool to another of the same request, by description and by address."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager

import torch
from torch import Tensor

from kvproto.protocols import DeclaresRegions, KVPool, Transferable, registered_spans
from kvproto.transfer import PageLists, describe, descriptors, negotiate, open_engine
from kvproto.transfer.engines.engine import TransferEngine

from ..composite_bench import CompositeBench
from ..kv_bench import KVBench
from ..law import has_layers, law
from .host_layouts import fill, shown
from .leaf import OWNED
from .request_items import fill_items, held_items

_SENT, _ARRIVED = [2, 1], [1, 2]


@law(
    "transfer.loopback",
    DeclaresRegions,
    Transferable,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    host_only="the engine of this machine's processor reaches no device",
    check="declare page 0 of every layer's own buffer, and every buffer with a row per token, slot "
    "or request",
)
def loopback(bench: KVBench) -> None:
    """What a peer of the same request is sent, as both describe themselves, arrives whole.

    Token pages, window pages, state slots and request rows.
    """
    there = bench.sibling(bench.another())
    _fill(bench)
    fill_items(bench)
    sent = {layer_id: _contents(bench, layer_id) for layer_id in bench.layer_ids}
    items = {name: held.clone() for name, held in held_items(bench).items()}
    plan = negotiate(describe(bench.pool, owner="sender"), describe(there.pool, owner="receiver"))
    pages: PageLists = dict.fromkeys(plan.spaces, (_SENT, _ARRIVED))
    moved = descriptors(plan, pages)
    with _engines(bench.pool, there.pool) as (sender, receiver):
        written = sender.write(receiver.name, moved.local, moved.remote, b"")
        bench.expect("the state of the write", expected="done", got=written.state())
    for layer_id, filled in sent.items():
        for was, found in zip(filled, _contents(there, layer_id), strict=True):
            size = len(was) * bench.request.page_size // bench.slots_in(layer_id)
            expected = torch.zeros_like(was)
            for source, target in zip(_SENT, _ARRIVED, strict=True):
                rows = was[source * size : (source + 1) * size]
                expected[target * size : (target + 1) * size] = rows
            call = f"pages {_SENT} of layer {layer_id} to pages {_ARRIVED} of a peer"
            bench.expect_same(call, found, expected, f"layer {layer_id}, slot")
    found_items = held_items(there)
    for name, was in items.items():
        expected = torch.zeros_like(was)
        expected[_ARRIVED] = was[_SENT]
        call = f"numbers {_SENT} of {name} to {_ARRIVED} of a peer"
        bench.expect_same(call, found_items[name].clone(), expected, name)


@contextmanager
def _engines(
    sender: DeclaresRegions, receiver: DeclaresRegions
) -> Generator[tuple[TransferEngine, TransferEngine]]:
    """Two that know each other, with all bytes of either pool."""
    with closing(open_engine("local")) as one, closing(open_engine("local")) as other:
        for engine, pool in ((one, sender), (other, receiver)):
            engine.register(registered_spans(pool.buffer_regions()))
        other.connect(one.metadata())
        one.connect(other.metadata())
        yield one, other


def _fill(bench: KVBench) -> None:
    if isinstance(bench, CompositeBench):
        bench.write_all_slots()
    else:
        fill(bench)


def _contents(bench: KVBench, layer_id: int) -> list[Tensor]:
    """Of a layer, a row or a scale each; not by the regions, which are on trial."""
    if isinstance(bench, CompositeBench):
        leaf, leaf_id = bench.place(layer_id)
        return shown(leaf, leaf_id)
    return shown(bench, layer_id)
