"""Layouts of key and value rows, against plain indexing of the buffers they are said to have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.conformance.oracle import peek
from kvproto.protocols import (
    DeclaresRegions,
    Declined,
    HostCopyable,
    KVLeaf,
    LayerIdReporting,
    MHALeafRequest,
    MHARows,
    Movable,
    SizeReporting,
    Transferable,
)
from kvproto.reference import MHALeaf, build_reference_leaf
from kvproto.reference.row_layouts import LAYOUTS

PAGE, PAGES, HEADS, K, V, LAYERS, START = 8, 4, 3, 16, 8, 2, 5
SLOTS = PAGE * PAGES
GEOMETRY: dict[str, Any] = {
    "size": SLOTS - PAGE,
    "page_size": PAGE,
    "dtype": torch.bfloat16,
    "head_num": HEADS,
    "head_dim": K,
    "v_head_dim": V,
    "layer_num": LAYERS,
    "start_layer": START,
    "device": "cpu",
}

Find = Callable[[Tensor, int, int], Tensor]
"""The row of a page and an offset in it, `[heads, width]`, by plain indexing."""

SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "nhd": ((SLOTS, HEADS, K), (SLOTS, HEADS, V)),
    "paged_nhd": ((PAGES, PAGE, HEADS, K), (PAGES, PAGE, HEADS, V)),
    "hnd": ((PAGES, HEADS, PAGE, K), (PAGES, HEADS, PAGE, V)),
    "vectorized_5d": ((PAGES, HEADS, 2, PAGE, 8), (PAGES, HEADS, 1, V, 8)),
}
FIND: dict[str, tuple[Find, Find]] = {
    "nhd": (lambda b, p, o: b[p * PAGE + o], lambda b, p, o: b[p * PAGE + o]),
    "paged_nhd": (lambda b, p, o: b[p, o], lambda b, p, o: b[p, o]),
    "hnd": (lambda b, p, o: b[p, :, o], lambda b, p, o: b[p, :, o]),
    "vectorized_5d": (
        lambda b, p, o: b[p, :, :, o].reshape(HEADS, K),
        lambda b, p, o: b[p, :, o // 8, :, o % 8],
    ),
}

layouts = pytest.mark.parametrize("layout", LAYOUTS)
packed_last = pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "nhd"])


def asked(layout: str, **changes: Any) -> MHALeafRequest:
    keywords: dict[str, Any] = GEOMETRY | {"layout": layout} | changes
    return MHALeafRequest(**keywords)


def make(layout: str, **changes: Any) -> MHALeaf:
    built = build_reference_leaf(asked(layout, **changes))
    assert isinstance(built, MHALeaf)
    return built


def rows(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(seed)
    k, v = (torch.randn(n, HEADS, width, generator=made).bfloat16() for width in (K, V))
    return k, v


def fill(leaf: MHALeaf) -> dict[int, tuple[Tensor, Tensor]]:
    """Rows in every usable slot of every layer, by layer."""
    written = {layer_id: rows(SLOTS, layer_id) for layer_id in range(START, START + LAYERS)}
    for layer_id, (k, v) in written.items():
        leaf.set_kv_buffer(None, torch.arange(SLOTS), k, v, layer_id_override=layer_id)
    return written


def found(leaf: MHALeaf, layer_id: int, slot: int) -> tuple[Tensor, Tensor]:
    key, value = FIND[leaf.kv_cache_layout]
    local, (page, offset) = layer_id - START, divmod(slot, PAGE)
    return key(leaf.k_buffer[local], page, offset), value(leaf.v_buffer[local], page, offset)


@layouts
def test_buffers_and_doors_have_the_shape_of_the_layout(layout: str) -> None:
    leaf = make(layout)
    shapes = tuple(leaf.k_buffer[0].shape), tuple(leaf.v_buffer[1].shape)
    assert shapes == SHAPES[layout]
    for buffers, door in (
        (leaf.k_buffer, leaf.get_key_buffer),
        (leaf.v_buffer, leaf.get_value_buffer),
    ):
        shown = door(START + 1)
        assert (shown.shape, shown.data_ptr()) == (buffers[1].shape, buffers[1].data_ptr())
    assert (leaf.kv_cache_layout, leaf.pool_traits.layout) == (layout, layout)


@layouts
def test_a_row_is_where_plain_indexing_finds_it(layout: str) -> None:
    leaf = make(layout)
    written = fill(leaf)
    for layer_id, (k, v) in written.items():
        for slot in range(1, SLOTS):
            key, value = found(leaf, layer_id, slot)
            assert torch.equal(key, k[slot])
            assert torch.equal(value, v[slot])
        assert not any(row.any() for row in found(leaf, layer_id, 0))


@layouts
def test_moves_overlap_and_leave_the_reserved_slot(layout: str) -> None:
    leaf = make(layout)
    written = fill(leaf)
    leaf.move_kv_cache(torch.tensor([7, 8, 9, 0, -1]), torch.tensor([8, 9, 10, 3, 4]))
    for layer_id, (k, v) in written.items():
        for slot, source in ((6, 6), (7, 8), (8, 9), (9, 10), (10, 10), (SLOTS - 1, SLOTS - 1)):
            key, value = found(leaf, layer_id, slot)
            assert torch.equal(key, k[source])
            assert torch.equal(value, v[source])
        assert not any(row.any() for row in found(leaf, layer_id, 0))


@layouts
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn])
def test_a_host_copy_comes_back_bit_for_bit(layout: str, dtype: torch.dtype) -> None:
    scheme = "fp8_scaled" if dtype.itemsize == 1 else "none"
    sizes: dict[str, Any] = {"page_size": 16, "size": 48, "head_dim": 16, "v_head_dim": 32}
    leaf = make(layout, dtype=dtype, quant_scheme=scheme, **sizes)
    made = torch.Generator().manual_seed(1)
    k, v = (torch.randn(3, HEADS, width, generator=made) for width in (16, 32))
    leaf.set_kv_buffer(None, torch.tensor([17, 40, 5]), k, v, layer_id_override=START)
    before = [b.clone() for b in (*leaf.k_buffer, *leaf.v_buffer)]
    copy = leaf.get_cpu_copy(torch.tensor([17, 40, 5]))
    for buffer in (*leaf.k_buffer, *leaf.v_buffer):
        buffer.zero_()
    leaf.load_cpu_copy(copy, torch.tensor([17, 40, 5]))
    for was, now in zip(before, (*leaf.k_buffer, *leaf.v_buffer), strict=True):
        assert torch.equal(was, now)


@layouts
def test_one_item_is_one_page(layout: str) -> None:
    """64-bit addresses and plain bytes: item `p` of a region is page `p` of the buffer."""
    leaf = make(layout)
    fill(leaf)
    pointers, lengths, items = leaf.get_contiguous_buf_infos()
    assert items == [2 * PAGE * HEADS * K] * 2 + [2 * PAGE * HEADS * V] * 2
    assert lengths == [item * PAGES for item in items]
    for pointer, item, buffer in zip(
        pointers, items, [*leaf.k_buffer, *leaf.v_buffer], strict=True
    ):
        page = buffer.view(PAGES, -1)[2].view(torch.uint8)
        assert peek(pointer + 2 * item, item) == bytes(page.numpy())


@layouts
def test_an_element_is_at_its_declared_address(layout: str) -> None:
    leaf = make(layout)
    written = fill(leaf)
    for region, side in zip(leaf.buffer_regions(), (0, 1), strict=True):
        for layer_id, pair in written.items():
            for slot in (1, PAGE + 3, SLOTS - 1):
                page, token = divmod(slot, PAGE)
                for head, i in ((0, 0), (2, 7), (1, 5)):
                    at = region.address(layer_id, page, token, head, i)
                    element = pair[side][slot, head, i : i + 1].view(torch.uint8)
                    assert peek(at, 2) == bytes(element.numpy())


def test_all_layers_of_paged_rows_are_one_run_of_bytes() -> None:
    leaf = make("paged_nhd")
    for buffers in (leaf.k_buffer, leaf.v_buffer):
        first, second = (buffer.data_ptr() for buffer in buffers)
        assert second - first == buffers[0].nbytes
        assert buffers[0].untyped_storage().nbytes() == LAYERS * buffers[0].nbytes


@layouts
def test_capabilities_and_sizes_are_those_of_any_leaf(layout: str) -> None:
    leaf = make(layout)
    for capability in (
        KVLeaf,
        MHARows,
        Movable,
        HostCopyable,
        Transferable,
        LayerIdReporting,
        SizeReporting,
        DeclaresRegions,
    ):
        assert isinstance(leaf, capability)
    token = 2 * HEADS * LAYERS
    assert leaf.get_kv_size_bytes() == (token * K * SLOTS, token * V * SLOTS)


@packed_last
def test_a_traced_write_does_not_break_the_graph(layout: str) -> None:
    leaf = make(layout)

    def step(loc: Tensor, k: Tensor, v: Tensor) -> Tensor:
        leaf.set_kv_buffer(None, loc, k, v, layer_id_override=START)
        return leaf.get_key_buffer(START).float().sum()

    compiled = torch.compile(step, fullgraph=True, backend="eager")
    k, v = torch.ones(2, HEADS, K), torch.ones(2, HEADS, V)
    assert compiled(torch.tensor([1, 0]), k, v).item() == HEADS * K


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"page_size": 4}, "page_size=4 must be a multiple of 8"),
        ({"head_dim": 12}, "head_dim=12 must be"),
        ({"v_head_dim": 4}, "v_head_dim=4 must be"),
        (
            {"dtype": torch.float8_e4m3fnuz, "quant_scheme": "fp8_scaled"},
            "16 elements of 1 bytes together.*page_size=8, v_head_dim=8 must be a multiple of 16",
        ),
    ],
)
def test_what_vectors_cannot_hold_is_declined_and_refused(
    changes: dict[str, Any], words: str
) -> None:
    request = asked("vectorized_5d", **changes)
    declined = build_reference_leaf(request)
    assert isinstance(declined, Declined)
    with pytest.raises(ValueError, match=words) as refused:
        MHALeaf(**request.keywords())
    assert declined.reason == str(refused.value)


def test_a_layout_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="kv_cache_layout='latent_rows': must be one of nhd, hnd"):
        MHALeaf(**asked("latent_rows").keywords())
    declined = build_reference_leaf(asked("packed_pages"))
    assert isinstance(declined, Declined)
    assert "layout='packed_pages'" in declined.reason


def test_a_stage_without_layers_exports_nothing() -> None:
    for layout in LAYOUTS:
        leaf = make(layout, layer_num=0)
        assert leaf.get_contiguous_buf_infos() == ([], [], [])
        assert leaf.buffer_regions() == ()
