"""The sparse-index leaf: what its constructor takes and refuses, and what the laws do not ask."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto import protocols
from kvproto.protocols import Declined, KeyOnly, SparseIndexLeafRequest, explain
from kvproto.protocols.request_bytes import bytes_of_pool
from kvproto.reference import KeyOnlyLeaf, SparseIndexLeaf, build_reference_leaf
from tests.reference.stand_ins import Layer, Waits

KEYWORDS: dict[str, Any] = {
    "size": 8,
    "page_size": 4,
    "dtype": torch.bfloat16,
    "head_num": 2,
    "head_dim": 4,
    "idx_head_dim": 3,
    "dense_layer_ids": [0, 1],
    "sparse_layer_ids": [2, 3, 4],
    "device": "cpu",
}
CAPABILITIES = [
    "KVLeaf",
    "MHARows",
    "SparseIndexed",
    "ScaledWrite",
    "LayerOverrideWrite",
    "Transferable",
    "LayerIdReporting",
    "StateTransferable",
    "HostCopyable",
    "Movable",
    "SizeReporting",
    "Resumable",
    "DeclaresTraits",
    "DeclaresRegions",
]


def make(**changes: Any) -> SparseIndexLeaf:
    return SparseIndexLeaf(**(KEYWORDS | changes))


@pytest.mark.parametrize("name", CAPABILITIES)
def test_has_its_capabilities_by_declaration(name: str) -> None:
    capability = getattr(protocols, name)
    assert isinstance(make(), capability)
    assert explain(SparseIndexLeaf, capability) == []


@pytest.mark.parametrize("name", ["KeyOnly", "IndexerCapable", "PrefixValidCommit", "Composite"])
def test_lacks_what_it_lacks(name: str) -> None:
    assert not isinstance(make(), getattr(protocols, name))


def test_takes_every_keyword_in_use() -> None:
    leaf = make(
        disable_value_sparse_layer_ids=[3],
        enable_memory_saver=False,
        index_dtype=torch.float16,
        start_layer=1,
        end_layer=4,
        enable_hisparse=False,
        host_to_device_ratio=4,
    )
    assert (leaf.start_layer, leaf.end_layer, leaf.layer_num) == (1, 4, 3)
    assert leaf.sparse_layer_id_mapping == {2: 0, 3: 1}
    assert leaf.index_kv_layer_id_mapping == {2: 0}
    assert leaf.index_k_layer_id_mapping == {3: 0}
    assert leaf.get_index_k_buffer(3).dtype == torch.float16
    assert leaf.get_index_kv_buffer(2)[1].shape == (12, 1, 3)
    assert leaf.pool_traits.index_scheme == "sparse_kv"


def test_the_stage_is_just_around_the_lists_by_default() -> None:
    leaf = make(dense_layer_ids=[7], sparse_layer_ids=[5, 6], disable_value_sparse_layer_ids=[5, 6])
    assert (leaf.start_layer, leaf.end_layer) == (5, 8)
    assert leaf.index_kv_pool is None
    assert leaf.pool_traits.index_scheme == "sparse_k"


def test_the_scheme_is_the_models_on_every_stage() -> None:
    dense = make(start_layer=0, end_layer=2)
    assert (dense.index_k_pool, dense.index_kv_pool) == (None, None)
    assert dense.pool_traits.index_scheme == "sparse_kv"
    assert dense.get_state_buf_infos() == ([], [], [])
    assert dense.get_sparse_kv_buf_infos() == ([], [], [])


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"sparse_layer_ids": []}, "sparse_layer_ids is empty"),
        ({"dense_layer_ids": [0, 2]}, r"layers \[2\] are in dense_layer_ids and in sparse"),
        ({"sparse_layer_ids": [2, 2]}, "none twice"),
        ({"dense_layer_ids": [-1, 0], "start_layer": 0}, "none negative"),
        ({"end_layer": 6}, r"layers \[5\] of the stage 0\.\.6"),
        ({"start_layer": 4, "end_layer": 3}, "no such stage"),
        ({"disable_value_sparse_layer_ids": [1]}, r"\[1\] are not in sparse_layer_ids"),
        ({"enable_hisparse": True}, "enable_hisparse=True"),
        ({"idx_head_dim": 0}, "idx_head_dim=0"),
        ({"head_num": 0}, "head_num=0"),
        ({"size": 6}, "not a multiple of page_size"),
        ({"dtype": torch.int8}, "dtype=torch.int8"),
        ({"index_dtype": torch.int32}, "dtype=torch.int32"),
    ],
)
def test_refuses_what_cannot_be(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        make(**changes)


def request(**changes: Any) -> SparseIndexLeafRequest:
    plain: dict[str, Any] = {
        name: value for name, value in KEYWORDS.items() if "layer_ids" not in name
    }
    lists: dict[str, Any] = {"dense_layer_ids": (0, 1), "sparse_layer_ids": (2, 3, 4)}
    given: dict[str, Any] = plain | lists | {"layer_num": 5} | changes
    return SparseIndexLeafRequest(**given)


@pytest.mark.parametrize(
    "changes",
    [
        {"sparse_layer_ids": ()},
        {"layer_num": 6},
        {"disable_value_sparse_layer_ids": (0,)},
        {"idx_head_dim": 0},
        {"dtype": torch.float8_e4m3fn},
    ],
)
def test_a_request_refuses_it_too(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"layer|idx_head_dim|quant_scheme"):
        request(**changes)


def test_the_builder_builds_it_and_declines_other_layouts() -> None:
    leaf = build_reference_leaf(request(disable_value_sparse_layer_ids=(4,)))
    assert isinstance(leaf, SparseIndexLeaf)
    declined = build_reference_leaf(request(layout="hnd"))
    assert isinstance(declined, Declined)
    assert "no reference sparse-index leaf with layout='hnd'" in declined.reason


def test_bytes_are_those_that_were_asked_for() -> None:
    asked = request(disable_value_sparse_layer_ids=(4,), index_dtype=torch.float32)
    leaf = build_reference_leaf(asked)
    assert not isinstance(leaf, Declined)
    # Five layers of two sides of two heads of 4 bf16; five index rows of 3 float32; 12 slots.
    assert sum(leaf.get_kv_size_bytes()) == 12 * (5 * 2 * 8 * 2 + 5 * 3 * 4) == bytes_of_pool(asked)


def test_index_values_have_a_writer_of_their_own() -> None:
    leaf, loc = make(), torch.tensor([5, 0, -1])
    rows = torch.arange(1.0, 10).view(3, 1, 3)
    leaf.set_index_kv_buffer(Layer(3), loc, rows, rows + 1)
    keys, values = leaf.get_index_kv_buffer(3)
    assert keys[:, 0, 0].tolist() == [0, 0, 0, 0, 0, 1, *[0] * 6]
    assert values[:, 0, 0].tolist() == [0, 0, 0, 0, 0, 2, *[0] * 6]
    with pytest.raises(ValueError, match="layer_id=1 has no index rows here"):
        leaf.set_index_kv_buffer(Layer(1), loc, rows, rows)


def test_a_layer_of_keys_alone_has_no_values_to_read() -> None:
    leaf = make(disable_value_sparse_layer_ids=[3])
    with pytest.raises(ValueError, match="layer_id=3 has index keys, but no index values"):
        leaf.get_index_kv_buffer(3)


def test_the_parts_wait_by_the_layer_of_the_stage_too() -> None:
    leaf, waits = make(start_layer=1), Waits()
    leaf.register_layer_transfer_counter(waits)
    assert leaf.index_kv_pool is not None
    leaf.index_kv_pool.get_key_buffer(2)
    leaf.main_pool.get_key_buffer(4)
    assert set(waits.seen) == {3}


def test_a_copy_of_another_pool_is_refused_before_anything_is_written() -> None:
    source, target = make(end_layer=4), make()
    copy = source.get_cpu_copy(torch.tensor([1]))
    with pytest.raises(
        ValueError, match="the copy holds 1 rows of 8 buffers, asked to load 1 rows into 10"
    ):
        target.load_cpu_copy(copy, torch.tensor([1]))


def test_keys_alone_are_a_leaf_of_keys() -> None:
    leaf = KeyOnlyLeaf(8, 4, torch.float8_e5m2, 1, 3, 2, "cpu", start_layer=6)
    assert isinstance(leaf, KeyOnly)
    rows = torch.full((2, 1, 3), 1e6)
    leaf.set_k_buffer(7, torch.tensor([3, 0]), rows)
    assert leaf.get_key_buffer(7)[3, 0, 0].item() == torch.finfo(torch.float8_e5m2).max
    assert not leaf.k_buffer[1][0].any()
    assert not leaf.k_buffer[0].any()
    assert leaf.get_kv_size_bytes() == (2 * 12 * 3, 0)
    with pytest.raises(ValueError, match="layer_id=5 is not in this pool"):
        leaf.set_k_buffer(5, torch.tensor([1]), rows[:1])
    with pytest.raises(IndexError, match="nothing was written"):
        leaf.set_k_buffer(6, torch.tensor([12]), rows[:1])


def test_keys_alone_keep_every_law_that_binds_any_object() -> None:
    from kvproto.conformance.capabilities import half_offered

    leaf = KeyOnlyLeaf(8, 4, torch.bfloat16, 1, 3, 1, "cpu")
    assert half_offered(leaf) == []
    assert leaf.pool_traits.kind == "key_only"
