"""Pooled index keys: which class a constructor's keywords make, and what the laws do not ask."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    HostCopyable,
    IndexerCapable,
    KPoolTail,
    KVLeaf,
    Movable,
    explain,
    supports,
)
from kvproto.protocols.request_bytes import bytes_of_pool
from kvproto.reference import (
    CompressedDSALeaf,
    DSALeaf,
    MLALeaf,
    PooledDSALeaf,
    RecurrentStatePool,
    build_reference_leaf,
    dsa_leaf,
    hybrid_pool,
    swa_pool,
)
from tests.reference.stand_ins import Waits

KEYWORDS: dict[str, Any] = {
    "size": 16,
    "page_size": 8,
    "kv_lora_rank": 4,
    "dtype": torch.bfloat16,
    "qk_rope_head_dim": 2,
    "layer_num": 2,
    "device": "cpu",
    "index_head_dim": 8,
    "enable_memory_saver": False,
    "kv_cache_dim": 6,
}
WEIGHED: dict[str, Any] = {
    "index_kpool": 4,
    "index_kpool_compress": True,
    "max_running_requests": 2,
}


def weighed(**changes: Any) -> CompressedDSALeaf:
    leaf = dsa_leaf(**(KEYWORDS | WEIGHED | changes))
    assert isinstance(leaf, CompressedDSALeaf)
    return leaf


def test_the_keywords_pick_the_class() -> None:
    assert type(dsa_leaf(**KEYWORDS, index_kpool_compress=True)) is DSALeaf
    assert type(dsa_leaf(**KEYWORDS, index_kpool=2)) is PooledDSALeaf
    assert type(weighed()) is CompressedDSALeaf


@pytest.mark.parametrize("capability", [KVLeaf, IndexerCapable, KPoolTail, HostCopyable])
def test_has_its_capabilities_by_declaration(capability: type) -> None:
    assert isinstance(weighed(), capability)
    assert explain(CompressedDSALeaf, capability) == []


def test_a_pooled_leaf_cannot_move_and_one_without_rings_has_no_tails() -> None:
    assert not supports(weighed(), Movable)
    assert not supports(dsa_leaf(**KEYWORDS, index_kpool=2), Movable)
    assert not supports(dsa_leaf(**KEYWORDS, index_kpool=2), KPoolTail)
    assert not supports(dsa_leaf(**KEYWORDS), KPoolTail)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"index_kpool": 3}, "index_kpool=3: must be at least 2 and divide page_size=8"),
        ({"index_kpool": 0}, "index_kpool=0"),
        ({"max_running_requests": None}, "max_running_requests=None"),
        ({"tail_extra_slots": -1}, "tail_extra_slots=-1"),
        ({"index_head_dim": 6}, "index_head_dim=6: weighed keys need a power of two"),
    ],
)
def test_refuses_what_cannot_be(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ValueError, match=line):
        dsa_leaf(**(KEYWORDS | WEIGHED | changes))


def request(**changes: Any) -> DSALeafRequest:
    given: dict[str, Any] = {k: v for k, v in KEYWORDS.items() if k != "kv_cache_dim"}
    every: dict[str, Any] = given | WEIGHED | changes
    return DSALeafRequest(**every)


@pytest.mark.parametrize(
    "changes",
    [
        {"index_kpool": 3},
        {"index_kpool": 0},
        {"max_running_requests": None},
        {"tail_extra_slots": -1},
        {"index_head_dim": 6},
    ],
)
def test_a_request_refuses_it_too(changes: dict[str, Any]) -> None:
    name = "index_head_dim" if "index_head_dim" in changes else next(iter(changes))
    with pytest.raises(ValueError, match=f"DSALeafRequest.{name}"):
        request(**changes)


@pytest.mark.parametrize("changes", [{}, {"index_kpool_compress": False}, {"index_kpool": 1}])
def test_bytes_are_those_that_were_asked_for(changes: dict[str, Any]) -> None:
    asked = request(tail_extra_slots=3, **changes)
    leaf = build_reference_leaf(asked)
    assert not isinstance(leaf, Declined)
    assert leaf.get_kv_size_bytes() == bytes_of_pool(asked)


def test_bytes_by_hand() -> None:
    # 24 slots of 6 bf16; 6 keys of 8 fp8 and a float32; two rings of 3 rows, 5 tokens, 8 bf16.
    by_layer = 24 * 12 + 6 * 12 + 2 * 3 * 5 * 8 * 2
    assert weighed(tail_extra_slots=1).get_kv_size_bytes() == 2 * by_layer


def test_a_copy_keeps_places_and_says_so() -> None:
    leaf = weighed()
    copy = leaf.get_cpu_copy(torch.tensor([8, 9]), req_pool_index=1)
    with pytest.raises(ValueError, match="would change its place among the 4"):
        leaf.load_cpu_copy(copy, torch.tensor([9, 10]), req_pool_index=1)
    with pytest.raises(ValueError, match=r"the copy holds rings, the request row .* is none"):
        leaf.load_cpu_copy(copy, torch.tensor([8, 9]))
    leaf.load_cpu_copy(copy, torch.tensor([0, 13]), req_pool_index=2)


def test_each_class_refuses_the_keywords_of_the_other() -> None:
    weighs: dict[str, Any] = KEYWORDS | WEIGHED
    plain: dict[str, Any] = weighs | {"index_kpool_compress": False}
    with pytest.raises(ValueError, match="a CompressedDSALeaf does; dsa_leaf"):
        PooledDSALeaf(**weighs)
    with pytest.raises(ValueError, match="PooledDSALeaf does not; dsa_leaf"):
        CompressedDSALeaf(**plain)
    compressed: Any = CompressedDSALeaf
    with pytest.raises(TypeError, match="positional"):
        compressed(*KEYWORDS.values(), **WEIGHED)


def test_read_doors_of_rings_wait() -> None:
    leaf, waits = weighed(start_layer=5), Waits()
    leaf.register_layer_transfer_counter(waits)
    leaf.get_compress_tail_buffers(6)
    assert waits.seen == [1]


def test_a_row_past_the_last_is_refused() -> None:
    leaf, one = weighed(), torch.ones(1, 8)
    with pytest.raises(IndexError, match="nothing was written"):
        leaf.set_compress_tail_for_request(0, torch.tensor(3), one, one, 1, 0)


def test_composites_hold_tails_exactly_where_a_leaf_does() -> None:
    state = RecurrentStatePool(
        size=2,
        mamba_layer_ids=(0,),
        conv_state_shape=((2, 2),),
        temporal_state_shape=(1, 2, 2),
        conv_dtype=torch.float32,
        ssm_dtype=torch.float32,
        device="cpu",
    )
    ids: dict[str, Any] = {"full_attention_layer_ids": [1, 2]}
    hybrid = hybrid_pool(full_kv_pool=weighed(), mamba_pool=state, **ids)
    assert isinstance(hybrid, KPoolTail)
    assert hybrid.kpool_use_compress
    assert hybrid.get_compress_tail_buffers(2)[0].shape == (3, 4, 8)
    plain = hybrid_pool(full_kv_pool=dsa_leaf(**KEYWORDS), mamba_pool=state, **ids)
    assert not isinstance(plain, KPoolTail)


def test_a_window_pair_routes_tails_to_the_layer_that_has_them() -> None:
    window = MLALeaf(8, 8, torch.bfloat16, 4, 2, 1, "cpu")
    pair = swa_pool(
        full_kv_pool=weighed(),
        swa_kv_pool=window,
        full_attention_layer_ids=[0, 2],
        swa_attention_layer_ids=[1],
    )
    assert isinstance(pair, KPoolTail)
    one = torch.ones(1, 8)
    pair.set_compress_tail_for_request(2, torch.tensor(1), one, one, 1, 3)
    assert pair.get_compress_tail_buffers(2)[0][1, 3].tolist() == [1.0] * 8
    assert not pair.get_compress_tail_buffers(0)[0].any()
    assert len(pair.get_compress_tail_buf_infos()[0]) == 4
    with pytest.raises(ValueError, match=r"layer_id=1 holds no tails, the layers \[0, 2\] do"):
        pair.get_compress_tail_buffers(1)
