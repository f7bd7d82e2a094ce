"""Pages from one pool to another of the same request, by description and by address."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import get_args

import torch
from torch import Tensor

from kvproto.protocols import DeclaresRegions, KVPool, Transferable, registered_spans
from kvproto.transfer import (
    IndexSpace,
    PageLists,
    PoolManifest,
    describe,
    descriptors,
    negotiate,
    open_engine,
)
from kvproto.transfer.engines.engine import TransferEngine, WriteState

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
    everything: PageLists = dict.fromkeys(get_args(IndexSpace), (_SENT, _ARRIVED))
    state = travel(bench.pool, there.pool, everything)
    bench.expect("the state of the write", expected="done", got=state)
    for layer_id, filled in sent.items():
        pages = bench.slots_in(layer_id) // bench.request.page_size
        found = _contents(there, layer_id)
        expect_moved(bench, layer_id, filled, found, pages, (_SENT, _ARRIVED), "pages")
    found_items = held_items(there)
    for name, was in items.items():
        expected = torch.zeros_like(was)
        expected[_ARRIVED] = was[_SENT]
        call = f"numbers {_SENT} of {name} to {_ARRIVED} of a peer"
        bench.expect_same(call, found_items[name].clone(), expected, name)


def travel(here: Transferable, there: Transferable, pages: PageLists) -> WriteState:
    """Send pages of each space that both describe; how the write ended."""
    sender, receiver = describe(here, owner="sender"), describe(there, owner="receiver")
    plan = negotiate(sender, receiver)
    moved = descriptors(plan, {space: pages[space] for space in plan.spaces})
    with _engines(sender, receiver) as (one, other):
        return one.write(other.name, moved.local, moved.remote, b"").state()


def expect_moved(
    bench: KVBench,
    layer_id: int,
    was: list[Tensor],
    found: list[Tensor],
    count: int,
    numbers: tuple[list[int], list[int]],
    what: str,
) -> None:
    """In each of a peer's tensors, of `count` equal parts, those sent arrived, and no other."""
    sent, arrived = numbers
    call = f"{what} {sent} of layer {layer_id} to {what} {arrived} of a peer"
    for before, after in zip(was, found, strict=True):
        parts = before.reshape(count, len(before) // count, *before.shape[1:])
        expected = torch.zeros_like(parts)
        expected[arrived] = parts[sent]
        bench.expect_same(call, after, expected.flatten(0, 1), f"layer {layer_id}, slot")


@contextmanager
def _engines(
    sender: PoolManifest, receiver: PoolManifest
) -> Generator[tuple[TransferEngine, TransferEngine]]:
    """Two that know each other, with all bytes of either pool."""
    with closing(open_engine("local")) as one, closing(open_engine("local")) as other:
        for engine, pool in ((one, sender), (other, receiver)):
            told = [each.region for part in pool.pools for each in part.regions]
            engine.register(registered_spans(told))
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
