"""Rows by head of some tokens on the device in sparse layers, all rows in the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvproto.protocols import (
    DeclaresRegions,
    HiSparse,
    HostCopyable,
    KVLeaf,
    Movable,
    SparseIndexed,
    SparseIndexLeafRequest,
    StateTransferable,
    Transferable,
    bytes_of_pool,
    supports,
)
from kvproto.reference import SubsetSparseLeaf, build_reference_leaf
from tests.configurator.test_build import described

REQUEST = SparseIndexLeafRequest(
    size=32,
    page_size=16,
    dtype=torch.bfloat16,
    layer_num=4,
    start_layer=2,
    device="cpu",
    head_num=2,
    head_dim=8,
    idx_head_dim=4,
    dense_layer_ids=(0, 1, 3),
    sparse_layer_ids=(2, 4, 5),
    disable_value_sparse_layer_ids=(4,),
    host_to_device_ratio=3,
)


def layer(layer_id: int) -> Any:
    return type("Layer", (), {"layer_id": layer_id})()


@pytest.fixture
def leaf() -> SubsetSparseLeaf:
    """Of the ids 16 to 111, 20 is at slot 33 of the device and 100 at slot 17."""
    made = build_reference_leaf(REQUEST)
    assert isinstance(made, SubsetSparseLeaf)
    table = torch.zeros(3 * 32 + 16 + 1, dtype=torch.int64)
    table[20], table[100] = 33, 17
    made.register_mapping(table)
    return made


def rows(count: int, heads: int = 2, width: int = 8) -> torch.Tensor:
    return torch.arange(1, count + 1, dtype=torch.bfloat16)[:, None, None].expand(-1, heads, width)


def written(buffer: torch.Tensor) -> list[int]:
    found: list[int] = buffer.abs().sum((1, 2)).nonzero()[:, 0].tolist()
    return found


IDS = torch.tensor([100, 50, 20, 0])


def test_main_rows_of_sparse_layers_are_at_slots_and_others_at_ids(leaf: SubsetSparseLeaf) -> None:
    for layer_id in range(2, 6):
        leaf.set_kv_buffer(layer(layer_id), IDS, rows(4), -rows(4))
    for layer_id in (2, 4, 5):
        keys, values = leaf.get_kv_buffer(layer_id)
        assert written(keys) == written(values) == [17, 33]
        assert keys[[17, 33], 0, 0].tolist() == [1, 3]
        assert values[[17, 33], 0, 0].tolist() == [-1, -3]
    assert written(leaf.get_key_buffer(3)) == [20, 50, 100]
    assert [len(buffer) for buffer in leaf.k_buffer] == [48, 112, 48, 48]


def test_index_rows_are_at_ids(leaf: SubsetSparseLeaf) -> None:
    leaf.set_index_k_buffer(layer(4), IDS, rows(4, 1, 4))
    leaf.set_index_kv_buffer(layer(5), IDS, rows(4, 1, 4), rows(4, 1, 4))
    assert written(leaf.get_index_k_buffer(4)) == [20, 50, 100]
    assert written(leaf.get_index_kv_buffer(5)[1]) == [20, 50, 100]


def test_rows_that_are_written_together_are_each_in_their_space(leaf: SubsetSparseLeaf) -> None:
    index = rows(4, 1, 4)
    leaf.set_fused_kv_index_buffer(layer(2), IDS, rows(4), rows(4), index, index)
    assert written(leaf.get_key_buffer(2)) == written(leaf.get_value_buffer(2)) == [17, 33]
    assert written(leaf.get_index_k_buffer(2)) == [20, 50, 100]
    with pytest.raises(ValueError, match="nothing was written"):
        leaf.set_fused_kv_index_buffer(layer(4), IDS, rows(4), rows(4), index, index)
    assert written(leaf.get_key_buffer(4)) == written(leaf.get_index_k_buffer(4)) == []


def test_locations_past_the_ids_are_refused(leaf: SubsetSparseLeaf) -> None:
    for layer_id in (2, 3):
        with pytest.raises(IndexError):
            leaf.set_kv_buffer(layer(layer_id), torch.tensor([120]), rows(1), rows(1))
    for layer_id in (1, 6):
        with pytest.raises(ValueError, match=rf"layer_id={layer_id} is not here"):
            leaf.get_key_buffer(layer_id)


def test_bytes_are_those_of_the_request(leaf: SubsetSparseLeaf) -> None:
    # K and V of 2 x 8 two-byte numbers: three layers of 48 slots, one of 112; index rows of 4:
    # three keys, two values, of 112.
    expected = 2 * 16 * 2 * (3 * 48 + 112) + 4 * 2 * 5 * 112
    assert bytes_of_pool(REQUEST) == expected
    assert sum(leaf.get_kv_size_bytes()) == expected
    assert described(leaf.buffer_regions()) == expected


def test_what_it_can(leaf: SubsetSparseLeaf) -> None:
    for offered in (KVLeaf, HiSparse, SparseIndexed, DeclaresRegions):
        assert supports(leaf, offered)
    for missing in (Movable, HostCopyable, Transferable, StateTransferable):
        assert not supports(leaf, missing)
    assert leaf.pool_traits.rows_are == "device_slots"
    assert (leaf.start_layer, leaf.end_layer, leaf.layer_num, leaf.size) == (2, 6, 4, 32)
    ptrs, lens, items = leaf.get_sparse_kv_buf_infos()
    assert (len(ptrs), set(lens), set(items)) == (6, {48 * 32}, {16 * 32})


def test_stages_without_one_kind_of_layer() -> None:
    alone = build_reference_leaf(replace(REQUEST, start_layer=3, layer_num=1))
    assert isinstance(alone, SubsetSparseLeaf)
    assert alone.main_pool.layer_num == 0
    assert alone.get_key_buffer(3).shape[0] == 112
    sparse = build_reference_leaf(replace(REQUEST, start_layer=4, layer_num=2))
    assert isinstance(sparse, SubsetSparseLeaf)
    assert sparse.dense_pool is None


def test_what_cannot_be() -> None:
    keywords: Any = REQUEST.keywords() | {"enable_hisparse": False}
    with pytest.raises(ValueError, match="rows of all tokens are a SparseIndexLeaf's"):
        SubsetSparseLeaf(**keywords)
