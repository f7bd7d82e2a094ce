"""Tiers of composites and of leaves: every space's bytes go, and readers wait for their layer."""

from __future__ import annotations

import queue
import threading
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from kvproto.conformance.specs import SPECS
from kvproto.protocols import (
    Composite,
    DeclaresRegions,
    HybridPoolRequest,
    SWAPoolRequest,
    supports,
)
from kvproto.reference import DSALeaf, MHALeaf, build_reference_pool
from kvproto.transfer import HostCapacity, HostTier, LoadFailed
from kvproto.transfer.host.layer_loads import HostLoads, StreamLoads
from tests.transfer.host.leaves import fill, region_bytes
from tests.transfer.pools import BUILDERS

COMPOSITES = {
    spec.name: spec.request
    for spec in SPECS
    if isinstance(spec.request, SWAPoolRequest | HybridPoolRequest)
}
FOUR = HostCapacity(4, "pages")


def built(name: str) -> Any:
    pool: Any = build_reference_pool(COMPOSITES[name])
    assert supports(pool, Composite)
    return pool


def filled_tier(pool: Any) -> tuple[HostTier, dict[Any, Any]]:
    """Pages 2 and 1 of each space, backed up to as many host pages."""
    fill(pool)
    tier = HostTier(pool, "page_first", FOUR)
    pages: dict[Any, Any] = {space: ([2, 1], host.alloc(2)) for space, host in tier.pools.items()}
    tier.backup(pages)
    return tier, pages


@pytest.mark.parametrize("name", sorted(COMPOSITES))
def test_every_byte_of_a_composite_comes_back_by_its_own_space(name: str) -> None:
    pool = built(name)
    tier, pages = filled_tier(pool)
    leaves = dict(pool.leaves())
    window = leaves["swa"].layer_num if "swa" in leaves else 0
    full = leaves["full"].layer_num
    expected = {"full"} if full else set()
    assert set(tier.pools) == expected | ({"window"} if window else set()) | (
        {"state"} if "state" in leaves else set()
    )
    parts = [part for part in leaves.values() if supports(part, DeclaresRegions)]
    was = [region_bytes(part) for part in parts]
    for seed, part in enumerate(parts):
        fill(part, seed + 7)
    now = [region_bytes(part) for part in parts]
    tier.load(pages)
    tier.loads.finish()
    for part, before, between in zip(parts, was, now, strict=True):
        regions = [r for r in part.buffer_regions() for _ in r.bases]
        for region, a, b, c in zip(regions, before, between, region_bytes(part), strict=True):
            page = 0 if region.by_request else region.bytes_per_page
            assert c == b[:page] + a[page : 3 * page] + b[3 * page :]


def test_lists_of_one_space_are_refused_before_another_is_copied() -> None:
    pool = built("swa-page4-window-first")
    tier, pages = filled_tier(pool)
    fill(pool, seed=3)
    was = region_bytes(pool)
    wrong: dict[Any, Any] = {**pages, "window": ([3, 4], pages["window"][1])}
    for call in (tier.backup, tier.restore, tier.load):
        with pytest.raises(IndexError, match="device page 4"):
            call(wrong)
        with pytest.raises(KeyError, match="no host pool 'state', there are full, window"):
            call({**pages, "state": ([1], [0])})
    assert region_bytes(pool) == was
    with pytest.raises(ValueError, match="no HostCapacity of space 'window'"):
        HostTier(pool, "layer_first", {"full": FOUR})
    sized = HostTier(pool, "layer_first", {"full": FOUR, "window": HostCapacity(8, "tokens")})
    assert [host.page_count for host in sized.pools.values()] == [4, 2]


def test_index_pages_of_several_ranks_go_with_their_page_of_rows() -> None:
    pool = DSALeaf(
        size=24,
        page_size=8,
        dtype=torch.bfloat16,
        kv_lora_rank=8,
        qk_rope_head_dim=4,
        index_head_dim=16,
        layer_num=2,
        device="cpu",
        dcp_size=2,
        dcp_replicated=True,
    )
    counts = [region.page_count for region in pool.buffer_regions()]
    assert counts == [4, 8]
    tier, pages = filled_tier(pool)
    was = region_bytes(pool)
    fill(pool, seed=5)
    between = region_bytes(pool)
    tier.restore(pages)
    for before, other, after in zip(was, between, region_bytes(pool), strict=True):
        page = len(before) // 4
        assert after == other[:page] + before[page : 3 * page] + other[3 * page :]


def mha() -> MHALeaf:
    return MHALeaf(
        size=16,
        page_size=4,
        dtype=torch.bfloat16,
        head_num=2,
        head_dim=8,
        layer_num=3,
        start_layer=5,
        device="cpu",
    )


def test_a_reader_waits_for_its_own_layer_and_for_no_later_one() -> None:
    pool = mha()
    tier, pages = filled_tier(pool)
    was = {i: pool.get_key_buffer(i).view(torch.int16).clone() for i in (5, 6, 7)}
    fill(pool, seed=2)
    pool.register_layer_transfer_counter(tier.loads)
    pool.get_key_buffer(7)  # nothing is being loaded
    gates = {i: threading.Event() for i in (5, 6, 7)}
    host, load_runs = tier.pools["full"], tier.pools["full"].load_runs

    def slowly(layer_id: int, runs: Any) -> None:
        assert gates[layer_id].wait(10)
        load_runs(layer_id, runs)

    host.load_runs = slowly  # type: ignore[method-assign]
    tier.load(pages)
    read: queue.Queue[int] = queue.Queue()

    def reader() -> None:
        for layer_id in (5, 6, 7):
            rows = pool.get_key_buffer(layer_id).view(torch.int16)[4:12]
            assert torch.equal(rows, was[layer_id][4:12])
            read.put(layer_id)

    thread = threading.Thread(target=reader)
    thread.start()
    for layer_id in (5, 6, 7):
        thread.join(0.02)
        assert read.empty()
        gates[layer_id].set()
        assert read.get(timeout=10) == layer_id
    thread.join(10)
    tier.loads.finish()


def test_a_load_that_failed_is_told_to_whoever_reads_and_not_waited_for() -> None:
    loads = HostLoads(3)

    def load(position: int) -> None:
        if position == 1:
            raise OSError("the tier is gone")

    loads.start(load)
    loads.wait_until(0)
    for position in (1, 2):
        with pytest.raises(LoadFailed, match="layer 1 of the stage was not loaded"):
            loads.wait_until(position)
    for _ in range(2):
        with pytest.raises(LoadFailed, match="the tier is gone"):
            loads.finish()
    with pytest.raises(LoadFailed, match="layer 1"):  # finish() takes it from no late reader
        loads.wait_until(2)
    done: list[int] = []
    loads.start(done.append)
    loads.finish()
    loads.wait_until(2)
    assert done == [0, 1, 2]


def test_a_failure_that_nobody_was_told_is_raised_by_the_next_start() -> None:
    loads = HostLoads(1)

    def load(position: int) -> None:
        raise OSError("the tier is gone")

    loads.start(load)
    done: list[int] = []
    with pytest.raises(LoadFailed, match="layer 0"):
        loads.start(done.append)
    assert not done
    loads.start(done.append)
    loads.finish()
    assert done == [0]


@pytest.mark.parametrize("name", [name for name in BUILDERS if name.startswith("reference-rings")])
def test_layers_that_are_kept_by_request_can_be_read_while_others_load(name: str) -> None:
    pool = BUILDERS[name]()
    tier = HostTier(pool, "page_first", FOUR)
    pages: dict[Any, Any] = {space: ([2, 1], host.alloc(2)) for space, host in tier.pools.items()}
    pool.register_layer_transfer_counter(tier.loads)
    tier.load(pages)
    for layer_id in range(pool.start_layer, pool.start_layer + pool.layer_num):
        pool.get_key_buffer(layer_id)
    tier.loads.finish()


class Streams:
    """Stands for a device module, and writes down what streams are told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.on = "reader"

    def Stream(self, device: object) -> Any:
        return _Stream(self, "load")

    def Event(self) -> Any:
        return _Event(self)

    def current_stream(self) -> Any:
        return _Stream(self, self.on)

    def stream(self, stream: Any) -> Any:
        self.on = stream.name
        return nullcontext()


class _Stream:
    def __init__(self, of: Streams, name: str) -> None:
        self.of, self.name = of, name

    def wait_stream(self, other: Any) -> None:
        self.of.told.append(f"{self.name} waits for {other.name}")

    def wait_event(self, event: Any) -> None:
        self.of.told.append(f"{self.name} waits for {event.number}")

    def synchronize(self) -> None:
        self.of.told.append(f"host waits for {self.name}")


class _Event:
    made = 0

    def __init__(self, of: Streams) -> None:
        self.of, self.number = of, _Event.made
        _Event.made += 1

    def record(self) -> None:
        self.of.told.append(f"{self.of.on} records {self.number}")


def test_on_a_device_the_readers_stream_waits_for_the_event_of_its_layer() -> None:
    streams = Streams()
    loads = StreamLoads(2, torch.device("cuda"), streams)
    first = _Event.made - 2
    loads.wait_until(0)
    assert not streams.told
    loads.start(lambda position: streams.told.append(f"{streams.on} loads {position}"))
    streams.on = "reader"
    loads.wait_until(1)
    loads.finish()
    assert streams.told == [
        "load waits for reader",
        "load loads 0",
        f"load records {first}",
        "load loads 1",
        f"load records {first + 1}",
        f"reader waits for {first + 1}",
        "host waits for load",
    ]


def test_on_a_device_a_layer_that_failed_is_told_to_readers() -> None:
    loads = StreamLoads(2, torch.device("cuda"), Streams())

    def load(position: int) -> None:
        if position == 1:
            raise OSError("the tier is gone")

    loads.start(load)
    loads.wait_until(0)
    for _ in range(2):
        with pytest.raises(LoadFailed, match="layer 1 of the stage was not loaded"):
            loads.wait_until(1)
        with pytest.raises(LoadFailed, match="layer 1 of the stage was not loaded"):
            loads.finish()
