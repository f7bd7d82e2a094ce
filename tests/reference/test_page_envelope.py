"""Envelopes of all layers, against entries put together from the rows by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from kvproto.protocols import (
    Declined,
    KVLeaf,
    LayerIdReporting,
    MHALeafRequest,
    PageEnvelopeView,
    Transferable,
)
from kvproto.reference import PageEnvelopeLeaf, build_reference_leaf

PAGE, PAGES, HEADS, K, V, LAYERS, START = 4, 5, 2, 12, 4, 3, 6
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
    "layout": "page_envelope",
}
ENTRY = 192
"""Three layers of 48 + 16 bytes, a multiple of 32: no padding."""


def asked(**changes: Any) -> MHALeafRequest:
    return MHALeafRequest(**GEOMETRY | changes)


def make(**changes: Any) -> PageEnvelopeLeaf:
    built = build_reference_leaf(asked(**changes))
    assert isinstance(built, PageEnvelopeLeaf)
    return built


def fill(leaf: PageEnvelopeLeaf) -> Tensor:
    """Rows in every slot but 0; the bytes of all entries, as they ought to be."""
    parts: list[Tensor] = []
    for layer_id in range(leaf.start_layer, leaf.end_layer):
        made = torch.Generator().manual_seed(layer_id)
        k, v = (
            torch.randn(SLOTS, leaf.head_num, width, generator=made).bfloat16()
            for width in (leaf.head_dim, leaf.v_head_dim)
        )
        k[0], v[0] = 0, 0
        leaf.set_kv_buffer(None, torch.arange(SLOTS), k, v, layer_id_override=layer_id)
        parts += [k.view(torch.uint8).view(SLOTS, -1), v.view(torch.uint8).view(SLOTS, -1)]
    return torch.cat(parts, dim=1)


def test_an_entry_is_key_and_value_of_each_layer_in_turn() -> None:
    leaf = make()
    entries = fill(leaf)
    assert entries.shape == (SLOTS, ENTRY)
    assert torch.equal(leaf.get_page_envelope_buffer(), entries.view(PAGES, PAGE * ENTRY))
    assert leaf.k_buffer[1].stride() == (ENTRY // 2, K, 1)


def test_an_entry_is_padded_to_32_bytes() -> None:
    odd = make(layer_num=1, head_dim=16, v_head_dim=8, head_num=1)
    rows = fill(odd)
    shown = odd.get_page_envelope_buffer().view(SLOTS, 64)
    assert torch.equal(shown[:, :48], rows)
    assert not shown[:, 48:].any()
    assert odd.get_kv_size_bytes() == (SLOTS * 32, SLOTS * 32)


def test_one_entry_is_exported_and_no_layer_named_for_it() -> None:
    leaf = make()
    raw = leaf.get_page_envelope_buffer()
    assert leaf.get_contiguous_buf_infos() == ([raw.data_ptr()], [raw.nbytes], [PAGE * ENTRY])
    assert isinstance(leaf, Transferable)
    assert isinstance(leaf, PageEnvelopeView)
    assert isinstance(leaf, KVLeaf)
    assert not isinstance(leaf, LayerIdReporting)
    assert leaf.get_kv_size_bytes() == (SLOTS * LAYERS * 48, SLOTS * LAYERS * 16)
    traits = leaf.pool_traits
    assert (traits.layout, traits.transfer_layout) == ("page_envelope", "page_envelope")
    assert (leaf.requires_physical_write_loc, leaf.grow_direction) == (False, "up")


def test_slots_move_token_by_token_across_pages() -> None:
    leaf = make()
    entries = fill(leaf)
    leaf.move_kv_cache(torch.tensor([3, 4, 5, 0]), torch.tensor([4, 5, 6, 7]))
    expected = entries.clone()
    expected[[3, 4, 5]] = entries[[4, 5, 6]]
    assert torch.equal(leaf.get_page_envelope_buffer().view(SLOTS, ENTRY), expected)


def test_pages_move_and_are_zeroed_whole() -> None:
    leaf = make()
    was = fill(leaf).view(PAGES, -1)
    leaf.move_physical_pages(torch.tensor([1, 0, -1]), torch.tensor([3, 2, 2]), PAGE)
    expected = was.clone()
    expected[1] = was[3]
    assert torch.equal(leaf.get_page_envelope_buffer(), expected)
    leaf.zero_physical_pages(torch.tensor([4], dtype=torch.int32))
    expected[4] = 0
    assert torch.equal(leaf.get_page_envelope_buffer(), expected)


def test_page_numbers_past_the_end_and_of_another_size_are_refused() -> None:
    leaf = make()
    was = fill(leaf).view(PAGES, -1)
    one, past = torch.tensor([1]), torch.tensor([PAGES])
    with pytest.raises(ValueError, match="page_size=8: an envelope here holds 4 slots"):
        leaf.move_physical_pages(one, one, 8)
    for pages in ((one, past), (past, one)):
        with pytest.raises(IndexError):
            leaf.move_physical_pages(*pages, PAGE)
    with pytest.raises(IndexError):
        leaf.zero_physical_pages(past)
    assert torch.equal(leaf.get_page_envelope_buffer(), was)


def test_a_host_copy_comes_back_bit_for_bit() -> None:
    leaf = make()
    was = fill(leaf)
    copy = leaf.get_cpu_copy(torch.tensor([9, 2]))
    leaf.zero_physical_pages(torch.arange(PAGES))
    leaf.load_cpu_copy(copy, torch.tensor([3, 17]))
    expected = torch.zeros_like(was)
    expected[[3, 17]] = was[[9, 2]]
    assert torch.equal(leaf.get_page_envelope_buffer().view(SLOTS, ENTRY), expected)


def test_no_other_layout_is_taken_and_dropped() -> None:
    keywords = {key: value for key, value in GEOMETRY.items() if key != "layout"}
    other: Any = "hnd"
    with pytest.raises(ValueError, match=r"kv_cache_layout='hnd': .* an MHALeaf has the others"):
        PageEnvelopeLeaf(**keywords, kv_cache_layout=other)
    named = PageEnvelopeLeaf(**keywords, kv_cache_layout="page_envelope")
    assert named.kv_cache_layout == "page_envelope"


def test_a_stage_without_layers_exports_nothing() -> None:
    leaf = make(layer_num=0)
    assert leaf.get_contiguous_buf_infos() == ([], [], [])
    assert leaf.buffer_regions() == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"head_dim": 10}, "key rows of 40 bytes"),
        ({"v_head_dim": 3}, "value rows of 12 bytes"),
        (
            {"head_num": 1, "head_dim": 4, "v_head_dim": 4},
            "key rows of 8 bytes and value rows",
        ),
    ],
)
def test_rows_that_cannot_be_aligned_are_declined_and_refused(
    changes: dict[str, Any], words: str
) -> None:
    declined = build_reference_leaf(asked(**changes))
    assert isinstance(declined, Declined)
    assert words in declined.reason
    with pytest.raises(ValueError, match=words):
        PageEnvelopeLeaf(**asked(**changes).keywords())
