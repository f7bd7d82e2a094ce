"""Leaves on an emulated device: the bytes that they have in host memory, by the vendor's operators.

What is emulated is what the vendor documents; nothing here ran on hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from kvproto.adapters.npu.facts import NPU
from kvproto.adapters.npu.mha import NPUMHALeaf
from kvproto.adapters.npu.mla import NPUMLALeaf
from kvproto.adapters.npu.platform import NPUPlatform, npu
from kvproto.conformance import check_pool
from kvproto.conformance.laws.sync_free import run_traced
from kvproto.conformance.storage import tensors_of
from kvproto.protocols import AllocatorRequest, Declined, PagedAllocator, registered_spans, require
from tests.adapters.npu.leaves import (
    BF16,
    FP8,
    FP32,
    HEADS,
    LEAVES,
    PAGE,
    RANK,
    ROPE,
    SIZE,
    V_WIDTH,
    WIDTH,
    Layer,
    planes,
    write,
)

import_module("torch_npu")  # as whoever has a device has done: it registers the operators

ALIGNMENT = NPU.registration_alignment
SLOTS = SIZE + PAGE
PADDED = [0, 5, -1, PAGE, -SLOTS, 2 * PAGE - 1, 0, SLOTS - 1]


def on_both(name: str) -> tuple[Any, Any]:
    return LEAVES[name]("cpu"), LEAVES[name]("npu")


def at(values: list[int], leaf: Any, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=leaf.k_buffer[0].device)


def ones(name: str) -> tuple[Tensor, Tensor]:
    """Three keys, or whole rows, and three values for that leaf."""
    width = (1, RANK + ROPE) if "latents" in name else (HEADS, WIDTH)
    of_values = WIDTH if "index rows" in name else V_WIDTH
    return torch.ones(3, *width, device="npu"), torch.ones(3, HEADS, of_values, device="npu")


def assert_same(here: Any, there: Any) -> None:
    for expected, found in zip(planes(here), planes(there), strict=True):
        assert found.equal(expected)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("name", LEAVES)
def test_rows_are_written_as_in_host_memory_and_padding_is_dropped(
    name: str, index: torch.dtype
) -> None:
    here, there = on_both(name)
    for leaf in (here, there):
        write(leaf, at(PADDED, leaf, index))
        write(leaf, at([3, 9, 7, 9], leaf, index)[::2], seed=1)
        write(leaf, at([], leaf, index), seed=2)
        write(leaf, at([0, -1], leaf, index), seed=3)
    assert_same(here, there)
    assert any(plane.any() for plane in planes(there))


@pytest.mark.parametrize("name", LEAVES)
def test_rows_move_and_leave_for_the_host_as_in_host_memory(name: str) -> None:
    here, there = on_both(name)
    for leaf in (here, there):
        write(leaf, at([5, PAGE, 2 * PAGE + 1], leaf))
        leaf.move_kv_cache(at([6, 5, 0, -1], leaf), at([5, PAGE, PAGE, 5], leaf))
        copy = leaf.get_cpu_copy(at([PAGE, 6], leaf))
        leaf.load_cpu_copy(copy, at([SLOTS - 1, 0], leaf))
    assert_same(here, there)


class _Count(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """How many operations are asked for."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        self.seen += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("build", [NPUMHALeaf, NPUMLALeaf])
def test_a_move_is_as_many_operations_for_61_layers_as_for_one(build: Any) -> None:
    rows: dict[str, Any] = {"head_num": HEADS, "head_dim": WIDTH}
    if build is NPUMLALeaf:
        rows = {"kv_lora_rank": RANK, "qk_rope_head_dim": ROPE}
    seen: list[tuple[int, int]] = []
    for layers in (1, 61):
        leaf = build(SIZE, PAGE, BF16, **rows, layer_num=layers, device="npu")
        loc = at([5, PAGE], leaf)
        with _Count() as moved:
            leaf.move_kv_cache(loc, loc)
        with _Count() as copied:
            leaf.load_cpu_copy(leaf.get_cpu_copy(loc), loc)
        seen.append((moved.seen, copied.seen))
    (one_move, one_copy), (move, copy) = seen
    # The address of a row through layers has one more term: a product and a sum.
    assert move - one_move <= 24
    assert copy - one_copy <= 24


@pytest.mark.parametrize("name", [name for name in LEAVES if "latents" in name])
def test_parts_are_read_as_in_host_memory(name: str) -> None:
    parts: list[list[Tensor]] = []
    for leaf in on_both(name):
        write(leaf, at([5, PAGE], leaf))
        read = leaf.get_mla_kv_buffer(Layer(4), at([PAGE, 0, 5, -1], leaf), dst_dtype=BF16)
        parts.append([part.cpu().view(torch.int16) for part in read])
    assert all(a.equal(b) for a, b in zip(*parts, strict=True))


@pytest.mark.parametrize("name", [name for name in LEAVES if "heads" in name])
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_sequences_are_gathered_out_of_their_pages(name: str, index: torch.dtype) -> None:
    lengths, table = [PAGE + 3, 1], [[2, 1], [1, 1_000_000]]
    tokens = [2 * PAGE + i for i in range(PAGE)] + [PAGE, PAGE + 1, PAGE + 2] + [PAGE]
    for leaf in on_both(name):
        write(leaf, at(tokens[:-1], leaf))
        lens, tables = at(lengths, leaf, index), torch.tensor(table, dtype=index)
        found = leaf.gather_kv_buffer(4, tables.to(lens.device), lens, sum(lengths))
        for rows, shown in zip(found, leaf.get_kv_buffer(4), strict=True):
            stored = shown.view(torch.uint8).cpu()
            expected = stored.reshape(SLOTS, *stored.shape[2:])[tokens]
            assert rows.dtype == leaf.dtype
            assert rows.view(torch.uint8).cpu().equal(expected)
        none = leaf.gather_kv_buffer(4, tables[:0].to(lens.device), lens[:0], 0)
        assert [rows.shape[0] for rows in none] == [0, 0]


@pytest.mark.parametrize("name", [f"heads in {BF16}", f"heads in {FP8}"])
@pytest.mark.parametrize("page", [99, -1])
def test_a_page_of_a_sequence_that_is_not_there_is_not_another_one(name: str, page: int) -> None:
    leaf = LEAVES[name]("npu")
    lens, table = at([PAGE + 1], leaf), torch.tensor([[1, page, 1]], device="npu")
    with pytest.raises(RuntimeError, match="block_tables"):
        leaf.gather_kv_buffer(3, table, lens, PAGE + 1)


@pytest.mark.parametrize("name", LEAVES)
def test_locations_past_the_last_are_padding_on_a_device(name: str) -> None:
    past = [SLOTS, 5, SLOTS + 1_000_000]
    leaf, expected = LEAVES[name]("npu"), LEAVES[name]("npu")
    write(leaf, at(past, leaf))
    write(expected, at([-1, 5, -1], expected))
    assert_same(expected, leaf)
    leaf.move_kv_cache(at(past, leaf), at([5, SLOTS, 5], leaf))
    expected.move_kv_cache(at([-1, 5, -1], leaf), at([5, -1, 5], leaf))
    assert_same(expected, leaf)
    write(leaf, at([6, 5, 7], leaf))
    leaf.load_cpu_copy(leaf.get_cpu_copy(at(past, leaf)), at([6, SLOTS, 7], leaf))
    write(expected, at([6, 5, 7], expected))
    nothing = expected.get_cpu_copy(at([0, 0], expected))
    expected.load_cpu_copy(nothing, at([6, 7], expected))
    assert_same(expected, leaf)
    assert any(plane.any() for plane in planes(leaf))


@pytest.mark.parametrize("name", LEAVES)
def test_locations_that_stayed_on_the_host_are_named(name: str) -> None:
    leaf = LEAVES[name]("npu")
    (rows, values), loc, there = ones(name), torch.tensor([5, 6, 7]), at([5, 6, 7], leaf)
    calls: list[Callable[[], Any]] = [
        lambda: leaf.set_kv_buffer(Layer(3), loc, rows, values),
        lambda: leaf.move_kv_cache(there, loc),
        lambda: leaf.get_cpu_copy(loc),
        lambda: leaf.load_cpu_copy(leaf.get_cpu_copy(there), loc),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="loc is on cpu, the pool on npu:0"):
            call()
    assert not any(plane.any() for plane in planes(leaf))


class _Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """The vendor's operators that are called, with the order they are told."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: list[tuple[str, str | None]] = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func.namespace == "npu":
            by_slot = func._schema.name.endswith("pa_kv_cache")  # told its default, none is seen
            order = named.get("cache_mode", "PA_NZ") if by_slot else None
            self.seen.append((func._schema.name, order))
        return func(*args, **named)


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        (f"heads in {BF16}", [("npu::npu_scatter_pa_kv_cache", "Norm")]),
        (f"heads in {FP8}", [("npu::npu_scatter_pa_kv_cache", "Norm")]),
        (f"heads in {FP32}", [("npu::npu_scatter_nd_update_", None)] * 2),
        ("index rows beside bf16", [("npu::npu_scatter_pa_kv_cache", "Norm")]),
        (f"latents in {BF16}", [("npu::npu_scatter_pa_kv_cache", "Norm")]),
        (f"latents in nz, {BF16}", [("npu::npu_scatter_pa_kv_cache", "PA_NZ")]),
        (f"latents in nz, {FP8}", [("npu::npu_scatter_pa_kv_cache", "PA_NZ")]),
        ("packed latents", [("npu::npu_scatter_nd_update_", None)]),
    ],
)
def test_the_vendor_s_operators_store_and_are_told_the_order(
    name: str, operators: list[tuple[str, str | None]]
) -> None:
    leaf = LEAVES[name]("npu")
    loc = at([5, 0, -1], leaf)
    rows, values = ones(name)
    calls = _Calls()
    with calls:
        leaf.set_kv_buffer(Layer(3), loc, rows, values)
    assert calls.seen == operators


@pytest.mark.parametrize("name", LEAVES)
def test_a_write_waits_for_nothing(name: str) -> None:
    leaf = LEAVES[name]("npu")
    (rows, values), loc, layer = ones(name), at([5, 0, -1], leaf), Layer(3)
    run_traced("set_kv_buffer", lambda: leaf.set_kv_buffer(layer, loc, rows, values))
    run_traced("move_kv_cache", lambda: leaf.move_kv_cache(loc, loc))


@pytest.mark.parametrize("name", LEAVES)
def test_planes_start_and_end_where_they_can_be_registered(name: str) -> None:
    leaf = LEAVES[name]("npu")
    spans = registered_spans(leaf.buffer_regions())
    assert spans
    assert all(start % ALIGNMENT == length % ALIGNMENT == 0 for start, length in spans)
    regions = leaf.buffer_regions()
    for region in regions:
        for base in region.bases:
            end = base + region.page_count * region.page_stride
            assert sum(start <= base and end <= start + n for start, n in spans) == 1
    held = [tensor.untyped_storage() for tensor in tensors_of(leaf)]
    owned = {(each.data_ptr(), each.data_ptr() + each.nbytes()) for each in held}
    for start, length in spans:
        assert sum(first <= start and start + length <= last for first, last in owned) == 1


def test_a_pool_of_no_memory_can_be_described() -> None:
    with FakeTensorMode():
        leaf = NPUMHALeaf(15 << 10, 128, BF16, 8, 128, 64, "npu")
        keys, values = leaf.get_hicache_transfer_buffers()
    assert keys.device.type == values.device.type == "npu"
    assert sum(leaf.get_kv_size_bytes()) == 2 * 64 * 121 * 128 * 8 * 128 * 2


def test_the_platform_finds_its_device_and_builds_on_it() -> None:
    found = npu()
    assert isinstance(found, NPUPlatform)
    request = AllocatorRequest(kind="paged", size=4 * PAGE, page_size=PAGE, device="npu")
    lent = found.build_allocator(request)
    assert not isinstance(lent, Declined)
    pages = require(lent, PagedAllocator, for_="a batch")
    zero, lens = torch.tensor([0, 0]), torch.tensor([PAGE + 1, 3])
    nowhere = torch.tensor([-1, -1], device="npu")
    slots = pages.alloc_extend(zero.to("npu"), zero, lens.to("npu"), lens, nowhere, PAGE + 4)
    assert slots is not None
    assert (slots.device.type, slots.dtype) == ("npu", torch.int64)
    assert len({*slots.tolist()}) == PAGE + 4
    following = pages.alloc_decode((lens + 1).to("npu"), lens + 1, slots[[PAGE, PAGE + 3]])
    assert following is not None
    assert following.cpu().equal(slots[[PAGE, PAGE + 3]].cpu() + 1)
    pages.free(slots)
    assert pages.available_size() == 4 * PAGE


KEPT = ("leaf", "mla", "index-rows", "sparse", "move", "transfer", "host-copy", "sync-free")
ON_THE_BENCH = {
    "mha-fp8-e4m3fn-page16": 25,
    "mla-split-nz-fp8-e4m3fn-page16": 30,
    "dsa-split-packed-page16-shared": 35,
    "sparse-bf16-page16-mixed": 35,
}
"""Laws that are kept, at least, so that none is lost unseen."""


@pytest.mark.parametrize("spec", ON_THE_BENCH)
def test_leaves_keep_the_laws_on_the_device(spec: str) -> None:
    platform = npu()
    assert isinstance(platform, NPUPlatform)
    report = check_pool(platform.build_leaf, specs=[spec], laws=list(KEPT), device="npu:0")
    assert not report.failures, [result.detail for result in report.failures]
    assert sum(r.status == "passed" for r in report.results) >= ON_THE_BENCH[spec]
