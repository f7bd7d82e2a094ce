"""Latent rows of some tokens on the device, index keys of all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    HiSparse,
    HostCopyable,
    IndexerCapable,
    KVLeaf,
    Movable,
    PrefixValidCommit,
    StateTransferable,
    Transferable,
    bytes_of_pool,
    supports,
)
from kvproto.reference import SubsetDSALeaf, build_reference_leaf
from tests.configurator.test_build import described

REQUEST = DSALeafRequest(
    size=64,
    page_size=64,
    dtype=torch.bfloat16,
    layer_num=1,
    device="cpu",
    kv_lora_rank=128,
    qk_rope_head_dim=64,
    index_head_dim=128,
    host_to_device_ratio=2,
)
LAYER: Any = type("Layer", (), {"layer_id": 0})()


def mapped(**slots: int) -> SubsetDSALeaf:
    """A leaf in which the ids `i70`, ... have these device slots."""
    leaf = SubsetDSALeaf(**REQUEST.keywords())
    table = torch.zeros(3 * 64 + 1, dtype=torch.int64)
    for name, slot in slots.items():
        table[int(name[1:])] = slot
    leaf.register_mapping(table)
    return leaf


def rows(count: int) -> torch.Tensor:
    return torch.arange(1, count + 1, dtype=torch.bfloat16)[:, None, None].expand(-1, 1, 192)


def written(leaf: SubsetDSALeaf) -> list[int]:
    return leaf.get_key_buffer(0).abs().sum((1, 2)).nonzero()[:, 0].tolist()


def test_a_row_is_written_where_its_id_is_on_the_device() -> None:
    leaf = mapped(i130=65, i70=127)
    # The second id has no slot, and its row is nobody's.
    leaf.set_kv_buffer(LAYER, torch.tensor([130, 131, 70]), rows(3), None)
    assert written(leaf) == [65, 127]
    assert leaf.get_key_buffer(0)[[65, 127], 0, 0].tolist() == [1, 3]
    nope, rope = leaf.get_mla_kv_buffer(LAYER, torch.tensor([70, 130, 131, 0]))
    assert nope[:, 0, 0].tolist() == rope[:, 0, 0].tolist() == [3, 1, 0, 0]
    with pytest.raises(IndexError):
        leaf.set_kv_buffer(LAYER, torch.tensor([200]), rows(1), None)
    assert written(leaf) == [65, 127]


def test_accepted_drafts_are_written_by_id_too() -> None:
    leaf = mapped(i70=80, i71=81, i72=82)
    leaf.set_kv_buffer_prefix_valid(
        LAYER, torch.tensor([[70, 71, 72]]), torch.tensor([2]), rows(3), None
    )
    assert written(leaf) == [80, 81]


def test_keys_are_at_the_ids_themselves() -> None:
    leaf = mapped()
    keys = torch.ones(1, 128).to(torch.float8_e4m3fn)
    leaf.set_index_k_scale_buffer(0, torch.tensor([190]), keys, torch.ones(1, 1))
    pages = leaf.get_index_k_with_scale_buffer(0)
    assert pages.shape[0] == 3
    assert [bool(page.any()) for page in pages] == [False, False, True]
    with pytest.raises(IndexError):
        leaf.set_index_k_scale_buffer(0, torch.tensor([192]), keys, torch.ones(1, 1))
    assert described(leaf.buffer_regions()) == bytes_of_pool(REQUEST)
    sizes = leaf.get_kv_size_bytes()
    assert sizes == bytes_of_pool(REQUEST)


def test_what_spans_both_spaces_is_not_supported() -> None:
    leaf = build_reference_leaf(REQUEST)
    assert isinstance(leaf, SubsetDSALeaf)
    for offered in (KVLeaf, HiSparse, IndexerCapable, PrefixValidCommit):
        assert supports(leaf, offered)
    for missing in (Movable, HostCopyable, Transferable, StateTransferable):
        assert not supports(leaf, missing)
    traits = leaf.pool_traits
    assert (traits.kind, traits.id_space, traits.rows_are) == ("dsa", "virtual", "device_slots")


def test_before_a_table_is_registered_nothing_is_found() -> None:
    leaf = SubsetDSALeaf(**REQUEST.keywords())
    with pytest.raises(RuntimeError, match="no mapping to device slots is registered"):
        leaf.set_kv_buffer(LAYER, torch.tensor([70]), rows(1), None)


def test_what_cannot_be_built_says_so() -> None:
    pooled = build_reference_leaf(replace(REQUEST, index_kpool=2))
    assert pooled == Declined("no reference leaf with index_kpool=2 and host_to_device_ratio=2")
    keywords: Any = REQUEST.keywords() | {"host_to_device_ratio": 0}
    with pytest.raises(ValueError, match="host_to_device_ratio=0: must be at least 1"):
        SubsetDSALeaf(**keywords)
    with pytest.raises(
        ValueError, match="host_to_device_ratio=0: must be an integer of at least 1"
    ):
        replace(REQUEST, host_to_device_ratio=0)
