"""A composite of sglang's is taken apart and put together as one of ours, leaf by leaf."""

from __future__ import annotations

from typing import Any

import torch

from kvproto.adapters.sglang.composites import over_same_leaves
from kvproto.adapters.sglang.leaves import SGLangMHALeaf
from kvproto.protocols import Composite, HybridComposite, SWAComposite
from kvproto.reference import RecurrentStatePool
from tests.adapters.sglang.test_traits import pool_of

ROWS: dict[str, Any] = {
    "page_size": 4,
    "dtype": torch.bfloat16,
    "head_num": 2,
    "head_dim": 8,
    "device": "cpu",
}


def leaf(size: int, layers: int) -> SGLangMHALeaf:
    return SGLangMHALeaf(size, layer_num=layers, **ROWS)


def test_a_window_pair_keeps_leaves_and_layers() -> None:
    full, window = leaf(16, 1), leaf(8, 2)
    places = {1: (0, False), 2: (1, True), 0: (0, True)}
    theirs = pool_of("SWAKVPool", full_kv_pool=full, swa_kv_pool=window, layers_mapping=places)
    ours = over_same_leaves(theirs)
    assert isinstance(ours, SWAComposite)
    assert isinstance(ours, Composite)
    assert (ours.full_kv_pool, ours.swa_kv_pool) == (full, window)
    assert ours.layers_mapping == places
    # sglang reads these of every pair, before it asks whether there is anything behind them.
    unused: Any = ours
    assert unused.post_capture_active is False
    assert (unused.swa_req_ring_size, unused.request_window) == (None, None)
    assert "sglang" not in str(type(ours).__mro__)


def test_a_hybrid_keeps_its_leaf_and_its_state() -> None:
    full = leaf(16, 2)
    state = RecurrentStatePool(
        size=4,
        conv_state_shape=((6, 3),),
        conv_dtype=torch.float32,
        temporal_state_shape=(2, 4, 4),
        ssm_dtype=torch.float32,
        mamba_layer_ids=(0, 2),
        device="cpu",
    )
    places = {1: 0, 3: 1}
    theirs = pool_of(
        "HybridLinearKVPool",
        full_kv_pool=full,
        mamba_pool=state,
        full_attention_layer_id_mapping=places,
    )
    ours = over_same_leaves(theirs)
    assert isinstance(ours, HybridComposite)
    assert (ours.full_kv_pool, ours.mamba_pool) == (full, state)
    assert ours.full_attention_layer_id_mapping == places


def test_everything_else_stays_what_it_is() -> None:
    full = leaf(16, 1)
    shared = pool_of("UnifiedSWAKVPool", full_kv_pool=full)
    pair = pool_of("SWAKVPool", full_kv_pool=full, swa_kv_pool=leaf(8, 1))
    pair.layers_mapping = {0: (0, False), 1: (0, True)}
    ours = over_same_leaves(pair)
    assert [over_same_leaves(each) for each in (full, shared, ours, None)] == [
        full,
        shared,
        ours,
        None,
    ]
