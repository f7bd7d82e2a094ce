"""Pages that go to host memory and back, in each order in which a host tier may keep them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast, get_args

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, DeclaresRegions, HostLayout, KVLeaf
from kvproto.transfer import HostCapacity, HostPool

from ..kv_bench import KVBench
from ..latent_bench import LatentBench
from ..law import has_layers, law
from ..memory import alias_of, poke
from ..read_doors import DoorReader
from .leaf import OWNED


@dataclass(frozen=True, slots=True)
class Declared:
    """Regions that are numbered alike, as a host pool is made of them."""

    device: torch.device | str
    regions: tuple[BufferRegion, ...]

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """The regions."""
        return self.regions


@law(
    "host-tier.layouts",
    DeclaresRegions,
    KVLeaf,
    applies=has_layers,
    needs=(*OWNED, "host-tier.fields"),
    hazardous=True,
    check="declare every buffer with a row per token, each layer's own address, and whole pages",
)
def layouts(bench: KVBench) -> None:
    """Pages backed up by the regions come back layer by layer, bit for bit, in any host layout."""
    pages = bench.slots // bench.request.page_size
    saved, back = (2, 1), (1, min(3, pages - 1))
    for layout in get_args(HostLayout):
        fill(bench)
        filled = {i: shown(bench, i) for i in bench.layer_ids}
        regions = tuple(r for r in bench.pool.buffer_regions() if not r.by_request)
        host = HostPool(
            Declared(bench.request.device, regions),
            layout,
            HostCapacity(len(saved), "pages"),
            open_bytes=alias_of,
        )
        kept = cast("Tensor", host.alloc(len(saved)))
        host.backup(saved, kept)
        erase(regions)
        for layer_id in bench.layer_ids:
            host.load_layer(layer_id, back, kept)
            _expect_loaded(bench, layer_id, filled[layer_id], saved, back, layout)
            for later in bench.layer_ids[bench.layer_ids.index(layer_id) + 1 :]:
                _expect_loaded(bench, later, filled[later], (), (), layout)


def fill(bench: KVBench) -> None:
    """Rows, and index keys, in every slot but the reserved one."""
    for layer_id in bench.layer_ids:
        k, v = bench.pair(bench.slots, salt=layer_id)
        bench.write(torch.arange(1, bench.slots), k[1:], v[1:], layer_id)
    if isinstance(bench, LatentBench) and bench.index_head_dim:
        bench.fill_index()


def erase(regions: Sequence[BufferRegion]) -> None:
    """Zero every page."""
    for region in regions:
        for layer_id in region.layer_ids:
            for page in range(region.page_count):
                poke(region.page_address(layer_id, page), bytes(region.bytes_per_page))


def shown(bench: KVBench, layer_id: int) -> list[Tensor]:
    """What the read doors show of a layer, by slot: not the regions, which are on trial."""
    doors = DoorReader(bench.pool, bench.door_form)
    shown = [doors.stored_bytes(side, layer_id) for side in bench.shown_sides]
    if isinstance(bench, LatentBench) and layer_id in bench.index_layers and bench.index_head_dim:
        keys, scales = doors.index(layer_id)
        shown += [keys, scales.unsqueeze(1)]
    return shown


def _expect_loaded(
    bench: KVBench,
    layer_id: int,
    filled: list[Tensor],
    saved: tuple[int, ...],
    back: tuple[int, ...],
    layout: HostLayout,
) -> None:
    for was, found in zip(filled, shown(bench, layer_id), strict=True):
        size = len(was) * bench.request.page_size // bench.slots
        expected = torch.zeros_like(was)
        for source, target in zip(saved, back, strict=True):
            expected[target * size : (target + 1) * size] = was[source * size : (source + 1) * size]
        call = (
            f"pages {list(saved)} of layer {layer_id} to a {layout} host and back to {list(back)}"
        )
        bench.expect_same(call, found, expected, f"layer {layer_id}, slot")
