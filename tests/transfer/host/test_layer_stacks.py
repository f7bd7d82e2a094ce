"""Layers that are copied many at once, wherever an allocator put them, against their bytes."""

from __future__ import annotations

import ctypes
import random
from itertools import pairwise
from typing import Any, get_args

import pytest
import torch

from kvproto.kernels import by_layer
from kvproto.protocols import Axis, BufferRegion, Field, HostLayout, Tile
from kvproto.reference import MHALeaf
from kvproto.transfer import HostCapacity, HostPool
from kvproto.transfer.host import layer_stack
from kvproto.transfer.host.layer_stack import layer_stacks
from kvproto.transfer.host.page_views import PageViews
from tests.transfer.host.leaves import KINDS, build, fill, region_bytes

LAYOUTS = get_args(HostLayout)
PAGES, TOKENS, ROW = 5, 4, 24
PAGE = TOKENS * ROW
PLACES = {
    "up": [0, 640, 1280, 1920],
    "down": [1920, 1280, 640, 0],
    "uneven": [0, 640, 1920, 1280],
    "up, then down": [0, 640, 1280, 3200, 2560, 1920],
    "one": [0],
    "at odd addresses": [1, 643, 1285],
}
"""Where layers begin in a memory of bytes; a layer is 480 of them."""

at_once = pytest.mark.parametrize("large", [1, 1 << 30], ids=["torch", "numpy"])


class Scattered:
    """A pool whose layers begin where they are told to."""

    device = "cpu"

    def __init__(self, places: list[int]) -> None:
        self.places, self.memory = places, bytearray(random.Random(1).randbytes(4096))
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        axes = (Axis("token", (Tile(TOKENS, ROW),)), Axis("dim", (Tile(ROW, 1),)))
        self._region = BufferRegion(
            layer_ids=tuple(range(len(places))),
            bases=tuple(start + place for place in places),
            page_count=PAGES,
            page_size=TOKENS,
            bytes_per_page=PAGE,
            fields=(Field("key", "uint8", axes),),
        )

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return (self._region,)


@at_once
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("where", PLACES)
def test_every_layer_goes_to_its_own_place_and_back(
    where: str, layout: HostLayout, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layer_stack, "_LARGE", large)
    pool = Scattered(PLACES[where])
    host = HostPool(pool, layout, HostCapacity(6, "pages"))
    host.alloc(6)
    was = bytes(pool.memory)
    host.backup([3, 1, 2], [5, 2, 3])
    assert pool.memory == was
    for layer_id, place in enumerate(pool.places):
        for page, host_page in ((3, 5), (1, 2), (2, 3)):
            for span in host.host_regions[0].spans(layer_id, host_page):
                begin = place + page * PAGE + span.page
                held = bytes(host.memory[0][span.host : span.host + span.nbytes].tolist())
                assert held == was[begin : begin + span.nbytes]
    pool.memory[:] = bytes(4096)
    host.restore([4, 2], [5, 3])
    expected = bytearray(4096)
    for place in pool.places:
        for source, target in ((3, 4), (2, 2)):
            at, begin = place + target * PAGE, place + source * PAGE
            expected[at : at + PAGE] = was[begin : begin + PAGE]
    assert pool.memory == expected


@at_once
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_leaves_of_every_kind_are_copied_alike(
    kind: str, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = build(kind)
    fill(pool)
    monkeypatch.setattr(layer_stack, "_LARGE", large)
    was = region_bytes(pool)
    for layout in LAYOUTS:
        host = HostPool(pool, layout, HostCapacity(4, "pages"))
        host.alloc(4)
        host.backup([2, 3, 1], [3, 1, 2])
        _clear_pages(pool)
        assert region_bytes(pool) != was
        host.restore([2, 3, 1], [3, 1, 2])
        assert region_bytes(pool) == was


def _clear_pages(pool: Any) -> None:
    """Pages 1 to 3."""
    for region in pool.buffer_regions():
        for base in () if region.by_request else region.bases:
            ctypes.memset(base + region.page_stride, 0, 3 * region.page_stride)


def test_layers_at_even_distances_are_one_stack_and_at_others_several() -> None:
    memory = torch.zeros(PAGES, 6, PAGE, dtype=torch.uint8)
    counts = {
        where: [each.device.shape[1:-1] for each in _stacks(where, memory)] for where in PLACES
    }
    assert all(stack.vectors for where in PLACES for stack in _stacks(where, memory))
    assert counts == {
        "up": [(4,)],
        "down": [(4,)],
        "uneven": [(2,), (2,)],
        "up, then down": [(3,), (3,)],
        "one": [()],
        "at odd addresses": [(3,)],
    }


def _stacks(where: str, memory: torch.Tensor) -> list[layer_stack.LayerStack]:
    there = torch.zeros(4096, dtype=torch.uint8)
    ends = zip(PLACES[where], by_layer(memory[:, :, None], "page_first_direct"), strict=False)
    shape, strides = (PAGES, 1, PAGE), (PAGE, PAGE, 1)
    return layer_stacks([PageViews.of(there.as_strided(shape, strides, p), h) for p, h in ends])


def test_the_layers_of_a_leaf_go_up() -> None:
    leaf = MHALeaf(
        size=4096,
        page_size=16,
        dtype=torch.bfloat16,
        head_num=2,
        head_dim=64,
        layer_num=6,
        device="cpu",
    )
    for buffers in (leaf.k_buffer, leaf.v_buffer):
        assert all(a.data_ptr() < b.data_ptr() for a, b in pairwise(buffers))
