"""The host tier of whole pools: every leaf by its own page numbers, and readers that wait."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from kvproto.protocols import Composite, DeclaresRegions, KVPool, Transferable
from kvproto.transfer import HostCapacity, HostTier, TierPages

from ..broken import LawBroken
from ..composite_bench import CompositeBench
from ..kv_bench import KVBench
from ..law import has_layers, law
from ..memory import alias_of, poke
from .host_layouts import erase, fill
from .leaf import OWNED

_SAVED = [2, 1]


@law(
    "host-tier.spaces",
    DeclaresRegions,
    Transferable,
    Composite,
    applies=has_layers,
    hazardous=True,
    check="declare the regions of every leaf, each layer by its global id",
)
def spaces(bench: CompositeBench) -> None:
    """A tier of all leaves brings each layer's pages back by its leaf's own page numbers."""
    bench.write_all_slots()
    held = {layer_id: _contents(bench, layer_id) for layer_id in bench.layer_ids}
    tier, pages = _backed_up(bench)
    for host in tier.pools.values():
        erase([mirror.region for mirror in host.host_regions])
    for layer_id in bench.layer_ids:
        for was, found in zip(held[layer_id], _contents(bench, layer_id), strict=True):
            call = f"layer {layer_id} after every region that a tier has was zeroed"
            bench.expect_same(call, found, torch.zeros_like(was), "slot")
        tier.load_layer(layer_id, pages)
        for was, found in zip(held[layer_id], _contents(bench, layer_id), strict=True):
            size = len(was) * bench.request.page_size // bench.slots_in(layer_id)
            expected = torch.zeros_like(was)
            expected[size : 3 * size] = was[size : 3 * size]
            call = f"pages {_SAVED} of layer {layer_id} to the host and back"
            bench.expect_same(call, found, expected, "slot")


@law(
    "host-tier.layer-wait",
    DeclaresRegions,
    Transferable,
    KVPool,
    applies=has_layers,
    needs=OWNED,
    hazardous=True,
    check="wait in every read door, for the layer's place in the stage, before looking at rows",
)
def layer_wait(bench: KVBench) -> None:
    """What a read door shows of a layer that is still being loaded is what was backed up."""
    if isinstance(bench, CompositeBench):
        bench.write_all_slots()
    else:
        fill(bench)
    places = [(layer_id, door) for layer_id in bench.layer_ids for door in bench.read_doors]
    was = {place: _shown(bench, *place) for place in places}
    tier, pages = _backed_up(bench)
    start: int = bench.pool.start_layer

    class OnDemand:
        def wait_until(self, threshold: int, /) -> None:
            tier.load_layer(start + threshold, pages)

    bench.pool.register_layer_transfer_counter(OnDemand())
    for layer_id, door in places:
        _erase_saved(tier)
        shown = _shown(bench, layer_id, door)
        if not all(map(torch.equal, shown, was[layer_id, door])):
            raise LawBroken(
                f"{door}({layer_id}) with a counter that loads pages {_SAVED} when waited for",
                expected="the rows that were backed up",
                got="others",
            )
    _load_behind_readers(bench, tier, pages, was)


def _load_behind_readers(
    bench: KVBench, tier: HostTier, pages: TierPages, was: dict[tuple[int, str], list[Tensor]]
) -> None:
    """The tier's own counter: one load of all layers, while every door is read."""
    bench.pool.register_layer_transfer_counter(tier.loads)
    _erase_saved(tier)
    tier.load(pages)
    try:
        for (layer_id, door), rows in was.items():
            if not all(map(torch.equal, _shown(bench, layer_id, door), rows)):
                raise LawBroken(
                    f"{door}({layer_id}) while HostTier.load brings pages {_SAVED}",
                    expected="the rows that were backed up",
                    got="others",
                )
    finally:
        tier.loads.finish()


def _contents(bench: CompositeBench, layer_id: int) -> list[Tensor]:
    """Of a layer, a row or a scale each."""
    return [held.unsqueeze(-1) for held in bench.contents(layer_id)]


def _backed_up(bench: KVBench) -> tuple[HostTier, TierPages]:
    two = HostCapacity(len(_SAVED), "pages")
    tier = HostTier(bench.pool, "page_first_direct", two, open_bytes=alias_of)
    pages: TierPages = {
        space: (_SAVED, cast("Tensor", host.alloc(len(_SAVED))))
        for space, host in tier.pools.items()
    }
    tier.backup(pages)
    return tier, pages


def _erase_saved(tier: HostTier) -> None:
    for host in tier.pools.values():
        for region in (mirror.region for mirror in host.host_regions):
            for layer_id in region.layer_ids:
                for page in _SAVED:
                    poke(region.page_address(layer_id, page), bytes(region.bytes_per_page))


def _shown(bench: KVBench, layer_id: int, door: str) -> list[Tensor]:
    """The bytes that a door shows; where it shows both sides, of both."""
    found: Tensor | tuple[Tensor, Tensor] = getattr(bench.pool, door)(layer_id)
    parts = (found,) if isinstance(found, Tensor) else found
    return [part.detach().contiguous().view(torch.uint8).clone() for part in parts]
