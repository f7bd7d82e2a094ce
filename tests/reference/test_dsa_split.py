"""DSA leaves of ranks that split a request's tokens: rows of one or of all, index keys of all."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch

from kvproto import protocols
from kvproto.protocols import (
    DeclaresRegions,
    DSALeafRequest,
    HostCopyable,
    IndexerCapable,
    Movable,
    StateTransferable,
    bytes_of_pool,
    explain,
)
from kvproto.reference import DSALeaf, SplitDSALeaf, build_reference_leaf, dsa_leaf
from tests.kernels.latent_oracle import index_page
from tests.reference.dsa_leaves import GEOMETRY, keys_of
from tests.reference.stand_ins import Layer

RANKS = 4
REPLICATED: dict[str, Any] = {
    "page_size": 256,
    "size": 512,
    "dcp_size": RANKS,
    "dcp_replicated": True,
}


def given(**changes: Any) -> dict[str, Any]:
    return GEOMETRY | changes


def split(**changes: Any) -> DSALeaf:
    return dsa_leaf(**(given(dcp_size=RANKS) | changes))


def replicated(**changes: Any) -> DSALeaf:
    return dsa_leaf(**(given(**REPLICATED) | changes))


def page_of(number: int, tokens: dict[int, int]) -> bytes:
    own = {slot - 64 * number: v for slot, v in tokens.items() if slot // 64 == number}
    return index_page({offset: (bytes([v % 251]) * 128, float(v)) for offset, v in own.items()})


def test_a_split_leaf_has_what_one_location_can_name() -> None:
    assert isinstance(split(), SplitDSALeaf)
    for name in ("KVLeaf", "MLALatent", "IndexerCapable", "StateTransferable", "DeclaresRegions"):
        assert explain(SplitDSALeaf, getattr(protocols, name)) == []
    assert not isinstance(split(), Movable)
    assert not isinstance(split(), HostCopyable)
    assert isinstance(replicated(), Movable)
    assert isinstance(replicated(), HostCopyable)


def test_rows_are_at_a_ranks_locations_and_keys_at_those_of_all() -> None:
    leaf = split()
    rows = torch.randn(1, 1, 576).bfloat16()
    leaf.set_kv_buffer(Layer(1), torch.tensor([191]), rows, None)
    assert torch.equal(leaf.get_key_buffer(1)[191], rows[0])
    slots = [1, 64, 255, 256, 767]
    leaf.set_index_k_scale_buffer(1, torch.tensor(slots), *keys_of(slots))
    pages = leaf.get_index_k_with_scale_buffer(1)
    assert pages.shape == (RANKS * 3, 64 * 132)
    held = {slot: slot for slot in slots}
    assert [page.numpy().tobytes() for page in pages] == [page_of(i, held) for i in range(12)]
    keys, scales = leaf.get_index_k_scale_buffer(
        1, torch.tensor([64, 1]), torch.tensor([[11, -1], [4, -1]]), 65, 64
    )
    wanted, _ = keys_of([767, 256])
    assert torch.equal(keys[[63, 64]], wanted.view(torch.uint8))
    assert scales.view(torch.float32)[[63, 64], 0].tolist() == [767.0, 256.0]
    with pytest.raises(IndexError):
        leaf.set_index_k_scale_buffer(1, torch.tensor([768]), *keys_of([1]))


@pytest.mark.parametrize("make", [split, replicated])
def test_index_pages_travel_by_the_page_of_all_ranks(make: Any) -> None:
    leaf = make(skip_topk_layers=[True, False])
    assert leaf.index_page_size == 64
    slots = torch.arange(256, 512)
    leaf.set_index_k_scale_buffer(1, slots, *keys_of(slots.tolist()))
    assert isinstance(leaf, StateTransferable)
    pointers, lengths, items = leaf.get_state_buf_infos()
    assert (lengths[0], items) == (0, [0, RANKS * 64 * 132])
    assert lengths[1] == 3 * items[1]
    # The second page that ranks number together, as its pointer reads it.
    read = ctypes.string_at(pointers[1] + items[1], items[1])
    held = {int(slot): int(slot) for slot in slots}
    assert read == b"".join(page_of(number, held) for number in range(4, 8))


@pytest.mark.parametrize("make", [split, replicated])
def test_the_reserved_page_is_all_ranks(make: Any) -> None:
    leaf = make()
    for pages in leaf.index_k_with_scale_buffer:
        pages.fill_(7)
    leaf.restore_reserved()
    for pages in leaf.index_k_with_scale_buffer:
        assert not pages[:RANKS].any()
        assert (pages[RANKS:] == 7).all()


def test_a_replicated_leaf_moves_and_copies_both() -> None:
    leaf = replicated()
    rows = torch.randn(767, 1, 576).bfloat16()
    loc = torch.arange(1, 768)
    for layer_id in (0, 1):
        leaf.set_kv_buffer(Layer(layer_id), loc, rows, None)
        leaf.set_index_k_scale_buffer(layer_id, loc, *keys_of(loc.tolist()))
    copy = leaf.get_cpu_copy(torch.tensor([700, 256]))
    leaf.move_kv_cache(torch.tensor([300]), torch.tensor([766]))
    leaf.load_cpu_copy(copy, torch.tensor([301, 302]))
    held = {slot: slot for slot in range(1, 768)} | {300: 766, 301: 700, 302: 256}
    for layer_id in (0, 1):
        pages = leaf.get_index_k_with_scale_buffer(layer_id)
        assert [page.numpy().tobytes() for page in pages] == [page_of(i, held) for i in range(12)]
        assert torch.equal(leaf.get_key_buffer(layer_id)[[300, 301, 302]], rows[[765, 699, 255]])


@pytest.mark.parametrize("changes", [{"dcp_size": RANKS}, REPLICATED])
def test_bytes_are_those_of_the_request(changes: dict[str, Any]) -> None:
    request = DSALeafRequest(**given(**changes))
    leaf = build_reference_leaf(request)
    assert isinstance(leaf, DSALeaf)
    assert isinstance(leaf, DeclaresRegions)
    assert isinstance(leaf, IndexerCapable)
    assert leaf.get_kv_size_bytes() == bytes_of_pool(request)
    regions = leaf.buffer_regions()
    assert sum(len(r.bases) * r.page_count * r.bytes_per_page for r in regions) == bytes_of_pool(
        request
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dcp_size": 0}, "DSALeafRequest.dcp_size=0: must be an integer of at least 1"),
        ({"dcp_size": 2, "index_kpool": 16}, "the 16 tokens of an index key are several ranks'"),
        (
            {"dcp_size": 3, "dcp_replicated": True},
            "DSALeafRequest.page_size=64: rows of 3 ranks' tokens lie in pages that are a multiple",
        ),
    ],
)
def test_requests_that_no_ranks_can_share(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="DSALeafRequest") as error:
        DSALeafRequest(**given(**changes))
    assert said in str(error.value)


def test_constructors_name_each_other() -> None:
    with pytest.raises(ValueError, match="those of one rank's are a SplitDSALeaf's"):
        DSALeaf(**given(dcp_size=2))
    for wrong in (given(), given(**REPLICATED)):
        with pytest.raises(ValueError, match="all rows are a DSALeaf's"):
            SplitDSALeaf(**wrong)
    with pytest.raises(ValueError, match="the 16 tokens of an index key are several ranks'"):
        dsa_leaf(**given(dcp_size=2, dcp_replicated=True, index_kpool=16))
    with pytest.raises(ValueError, match="page_size=64: must be a multiple of dcp_size=3"):
        dsa_leaf(**given(dcp_size=3, dcp_replicated=True))
