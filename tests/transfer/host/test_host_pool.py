"""Pages to host memory and back, against the bytes at the addresses that regions and spans name."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from kvproto.conformance.oracle import gather_field
from kvproto.conformance.specs.composites import COMPOSITE_SPECS
from kvproto.protocols import (
    Axis,
    BufferRegion,
    DSALeafRequest,
    Field,
    HostLayout,
    SWAPoolRequest,
    Tile,
)
from kvproto.reference import DSALeaf, MHALeaf, build_reference_pool
from kvproto.transfer import HostCapacity, HostPool
from kvproto.transfer.host import host_pool
from kvproto.transfer.host.memory import host_memory
from kvproto.transfer.host.region_pages import KernelPages
from tests.transfer.host.leaves import KINDS, build, fill, page_bytes, peek, region_bytes

LAYOUTS = get_args(HostLayout)
SAVED, KEPT = [3, 1], [4, 0]
"""Device pages, and the host pages that hold them."""

every_kind = pytest.mark.parametrize("kind", sorted(KINDS))
every_layout = pytest.mark.parametrize("layout", LAYOUTS)


def tier(pool: Any, layout: HostLayout, pages: int = 5) -> HostPool:
    """A host pool, all of whose pages are owned."""
    host = HostPool(pool, layout, HostCapacity(pages, "pages"))
    taken = host.alloc(pages)
    assert taken is not None
    assert sorted(taken.tolist()) == list(range(pages))
    return host


def mha(**changes: Any) -> MHALeaf:
    geometry: dict[str, Any] = {"size": 16, "page_size": 4, "dtype": torch.bfloat16}
    rows: dict[str, Any] = {"head_num": 2, "head_dim": 8, "layer_num": 3, "device": "cpu"}
    return MHALeaf(**geometry | rows | changes)


@every_layout
@every_kind
def test_what_is_backed_up_lies_where_the_spans_say(kind: str, layout: HostLayout) -> None:
    pool = build(kind)
    fill(pool)
    before = region_bytes(pool)
    host = tier(pool, layout)
    host.backup(SAVED, KEPT)
    assert region_bytes(pool) == before
    for mirror, memory in zip(host.host_regions, host.memory, strict=True):
        region, untouched = mirror.region, bytearray(bytes(memory.numpy()))
        for layer_id in region.layer_ids:
            for page, host_page in zip(SAVED, KEPT, strict=True):
                data = page_bytes(region, layer_id, page)
                for span in mirror.spans(layer_id, host_page):
                    held = peek(memory.data_ptr() + span.host, span.nbytes)
                    assert held == data[span.page : span.page + span.nbytes]
                    untouched[span.host : span.host + span.nbytes] = bytes(span.nbytes)
        if all(field.name != "padding" for field in region.fields):
            assert not any(untouched)


@every_layout
@every_kind
def test_pages_come_back_bit_for_bit_and_no_other_changes(kind: str, layout: HostLayout) -> None:
    pool = build(kind)
    fill(pool)
    was = pages_of(pool)
    host = tier(pool, layout)
    host.backup(SAVED, KEPT)
    fill(pool, seed=2)
    expected = pages_of(pool)
    host.restore([1, 2], KEPT)
    for at, pages in enumerate(expected):
        if not by_request(pool)[at]:
            pages[1], pages[2] = was[at][3], was[at][1]
    assert pages_of(pool) == expected
    assert all(not any(pages[0]) for pages in pages_of(pool))


@every_kind
def test_a_layer_comes_back_alone(kind: str) -> None:
    pool = build(kind)
    for layout in LAYOUTS:
        host = tier(pool, layout)
        fill(pool)
        host.backup(SAVED, KEPT)
        was = {layer_id: rows_of(host, layer_id) for layer_id in host.layer_ids}
        fill(pool, seed=2)
        expected = {layer_id: rows_of(host, layer_id) for layer_id in host.layer_ids}
        last = host.layer_ids[-1]
        host.load_layer(last, SAVED, KEPT)
        for rows, held in zip(expected[last], was[last], strict=True):
            rows[SAVED] = held[SAVED]
        for layer_id, layer in expected.items():
            assert all(map(torch.equal, rows_of(host, layer_id), layer))


def rows_of(host: HostPool, layer_id: int) -> list[Tensor]:
    """`[pages, bytes]` of a layer in each region; of an envelope those of each of its fields."""
    regions = [mirror.region for mirror in host.host_regions]
    return [
        rows.view(torch.uint8).view(region.page_count, -1)
        for region in regions
        if layer_id in region.layer_ids
        for rows in _rows_of(region, layer_id)
    ]


def _rows_of(region: BufferRegion, layer_id: int) -> list[Tensor]:
    pages = range(region.page_count)
    if not region.is_envelope:
        whole = bytearray(b"".join(page_bytes(region, layer_id, page) for page in pages))
        return [torch.frombuffer(whole, dtype=torch.uint8)]
    fields = [field for field in region.fields if field.name != "padding"]
    return [gather_field(region, field, layer_id, pages) for field in fields]


@every_kind
def test_what_kernels_copy_is_what_copies_of_runs_do(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The torch twins of the kernels, on the same calls that a device gets."""
    pool = build(kind)
    fill(pool)
    for layout in LAYOUTS:
        plain = tier(pool, layout)
        with monkeypatch.context() as patch:
            patch.setattr(host_pool, "region_pages", KernelPages)
            kernels = tier(pool, layout)
        for host in (plain, kernels):
            host.backup([3, 1, 2], [3, 4, 1])
        assert all(map(torch.equal, plain.memory, kernels.memory))
        seen: list[list[bytes]] = []
        for host in (plain, kernels):
            fill(pool, seed=3)
            host.restore([1, 2], [3, 4])
            host.load_layer(host.layer_ids[-1], [3], [1])
            seen.append(region_bytes(pool))
        assert seen[0] == seen[1]


def pages_of(pool: Any) -> list[list[bytes]]:
    """The pages of each base of each region."""
    regions = [r for r in pool.buffer_regions() for _ in r.bases]
    return [
        [whole[i : i + region.bytes_per_page] for i in range(0, len(whole), region.bytes_per_page)]
        for region, whole in zip(regions, region_bytes(pool), strict=True)
    ]


def by_request(pool: Any) -> list[bool]:
    return [r.by_request for r in pool.buffer_regions() for _ in r.bases]


def test_what_is_free_or_elsewhere_is_refused_and_nothing_is_copied() -> None:
    pool = mha()
    host = HostPool(pool, "layer_first", HostCapacity(4, "pages"))
    fill(pool)
    taken = host.alloc(3)
    assert taken is not None
    assert taken.tolist() == [0, 1, 2]
    assert host.alloc(2) is None
    before = region_bytes(pool)
    wrong: list[tuple[Any, Any, type[Exception], str]] = [
        ([1], [3], ValueError, "host page 3 is free"),
        ([1], [4], IndexError, r"host page 4 is outside 0\.\.3"),
        ([1], [-1], IndexError, r"host page -1 is outside 0\.\.3"),
        ([1, 2], [0, 0], ValueError, "host page 0 is named twice"),
        ([1, 1], [0, 1], ValueError, "device page 1 is named twice"),
        ([0], [1], ValueError, "device page 0 is reserved"),
        ([5], [1], IndexError, r"device page 5 is outside 1\.\.4"),
        ([1, 2], [0], ValueError, "2 device pages and 1 host pages"),
        ([[1]], [0], ValueError, r"device pages are torch.int64 \(1, 1\)"),
        ([1.5], [0], ValueError, "device pages are torch.float32"),
    ]
    for device, pages, error, told in wrong:
        for call in (host.backup, host.restore, lambda d, h: host.load_layer(0, d, h)):
            with pytest.raises(error, match=told):
                call(device, pages)
    with pytest.raises(ValueError, match="layer_id 3 has no rows here"):
        host.load_layer(3, [1], [0])
    assert region_bytes(pool) == before
    assert not any(memory.any() for memory in host.memory)
    host.backup([], [])
    host.restore(torch.empty(0, dtype=torch.int32), [])


def test_a_page_is_free_once() -> None:
    host = HostPool(mha(), "layer_first", HostCapacity(4, "pages"))
    assert host.alloc(0) is not None
    pages = host.alloc(4)
    assert pages is not None
    for wrong, error, told in [
        ([1, 1], ValueError, "host page 1 is named twice"),
        ([4], IndexError, "outside"),
        ([0, -1], IndexError, "outside"),
    ]:
        with pytest.raises(error, match=told):
            host.free(wrong)
    assert host.available_size() == 0
    host.free(torch.tensor([1, 3], dtype=torch.int32))
    with pytest.raises(ValueError, match="host page 3 is free"):
        host.free([0, 3])
    assert host.available_size() == 2
    again = host.alloc(2)
    assert again is not None
    assert sorted(again.tolist()) == [1, 3]
    host.clear()
    assert host.available_size() == 4
    with pytest.raises(ValueError, match="-1 host pages"):
        host.alloc(-1)


def test_capacity_is_of_what_is_stored() -> None:
    packed: Any = DSALeafRequest(
        size=128,
        page_size=64,
        dtype=torch.float8_e4m3fn,
        quant_scheme="dsa_fp8_packed",
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        index_head_dim=128,
        layer_num=2,
        device="cpu",
    )
    pool = DSALeaf(**packed.keywords())
    page = 2 * (64 * 656 + 64 * 132)
    for capacity, pages in [
        (HostCapacity(7, "pages"), 7),
        (HostCapacity(3 * 64 + 63, "tokens"), 3),
        (HostCapacity(2 * page, "bytes"), 2),
    ]:
        host = HostPool(pool, "page_first", capacity)
        assert (host.page_count, host.nbytes) == (pages, pages * page)
        assert not host.pinned
    with pytest.raises(ValueError, match="hold no page of 100864"):
        HostPool(pool, "page_first", HostCapacity(page - 1, "bytes"))
    with pytest.raises(ValueError, match="amount=0"):
        HostCapacity(0, "pages")
    with pytest.raises(ValueError, match="unit='GiB'"):
        HostCapacity(1, "GiB")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_stage_without_layers_has_nothing_to_keep() -> None:
    host = tier(mha(layer_num=0), "page_first")
    assert (host.nbytes, host.layer_ids) == (0, ())
    host.backup([], [])


def test_a_composite_and_another_device_are_refused() -> None:
    spec = next(spec for spec in COMPOSITE_SPECS if isinstance(spec.request, SWAPoolRequest))
    pool: Any = build_reference_pool(spec.request)
    with pytest.raises(ValueError, match="make a HostTier of it"):
        HostPool(pool, "layer_first", HostCapacity(1, "pages"))
    leaf: Any = mha()
    leaf.device = torch.device("meta")
    with pytest.raises(
        ValueError, match="memory on meta: torch opens addresses on cpu and cuda only"
    ):
        HostPool(leaf, "layer_first", HostCapacity(1, "pages"))


def test_a_layer_of_an_envelope_whose_rows_lie_head_by_head_comes_back_whole() -> None:
    tokens, layers, heads, width = 4, 2, 3, 16
    run = tokens * width
    axes = (
        Axis("token", (Tile(tokens, width),)),
        Axis("layer", (Tile(layers, heads * run),)),
        Axis("head", (Tile(heads, run),)),
        Axis("dim", (Tile(width // 2, 2),)),
    )
    memory = torch.randint(1, 255, (4, layers, heads * run), dtype=torch.uint8)

    class Envelopes:
        device = "cpu"

        def buffer_regions(self) -> tuple[BufferRegion, ...]:
            return (
                BufferRegion(
                    layer_ids=(0, 1),
                    bases=(memory.data_ptr(),),
                    page_count=4,
                    page_size=tokens,
                    bytes_per_page=layers * heads * run,
                    fields=(Field("key", "bfloat16", axes),),
                ),
            )

    host = tier(Envelopes(), "page_first_direct")
    host.backup(SAVED, KEPT)
    was = memory.clone()
    memory[SAVED] = 0
    for layer_id in (0, 1):
        host.load_layer(layer_id, SAVED, KEPT)
        assert torch.equal(memory[:, : layer_id + 1], was[:, : layer_id + 1])
        assert not memory[SAVED, layer_id + 1 :].any()


def pinning_up_to(most: int, monkeypatch: pytest.MonkeyPatch) -> tuple[torch.device, list[int]]:
    """An accelerator that torch does not know by name, and what was asked to be pinned for it."""
    there, asked, real = torch.device("privateuseone"), list[int](), torch.empty

    def empty(nbytes: int, *, pin_memory: bool, **options: Any) -> Tensor:
        if pin_memory:
            asked.append(nbytes)
            if nbytes > most:
                raise RuntimeError(f"cannot pin {nbytes} bytes")
        return real(nbytes, **options).fill_(1)

    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: there)
    monkeypatch.setattr(torch, "empty", empty)
    return there, asked


@pytest.mark.parametrize(("most", "pinned"), [(0, []), (64, [8])])
def test_memory_is_pinned_for_the_accelerator_of_the_pool_where_it_can_be(
    most: int, pinned: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    there, asked = pinning_up_to(most, monkeypatch)
    assert host_memory(8, torch.device("cpu")).tolist() == [0] * 8
    assert not asked
    assert host_memory(8, there).tolist() == [0] * 8
    assert asked == [1, *pinned]


def test_memory_that_is_too_much_to_pin_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    there, _ = pinning_up_to(64, monkeypatch)
    with pytest.raises(RuntimeError, match="cannot pin 65 bytes"):
        host_memory(65, there)
