"""An allocator of sglang's is answered by one of ours; tables and states have what sglang asks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kvproto.adapters.sglang.accounts import allocator_for
from kvproto.adapters.sglang.page_allocator import SGLangPageAllocator
from kvproto.adapters.sglang.request_table import SGLangReqToToken
from kvproto.adapters.sglang.state import (
    SGLangStatePool,
    SGLangStateReqToToken,
    SGLangStateSlots,
)
from kvproto.adapters.sglang.token_allocator import SGLangTokenAllocator
from kvproto.adapters.sglang.window_allocator import SGLangSWAAllocator
from kvproto.protocols import (
    RequestPool,
    SlotAllocator,
    StatePool,
    StateRequestPool,
    StateSlotAllocator,
    SWAAllocator,
)
from tests.adapters.sglang.test_traits import pool_of

SPACE: dict[str, Any] = {"dtype": torch.bfloat16, "device": "cpu", "need_sort": False}


def theirs(name: str, module: str, **built: Any) -> Any:
    made = pool_of(name, module=f"sglang.srt.mem_cache.allocator.{module}", **built)
    made.get_kvcache = lambda: "the pool"
    return made


def tokens(size: int, name: str = "TokenToKVPoolAllocator") -> Any:
    return theirs(name, "token", size=size, **SPACE)


def pair(
    full: Any, window: Any, name: str = "SWATokenToKVPoolAllocator", ring: bool = False
) -> Any:
    sides = {"full_attn_allocator": full, "swa_attn_allocator": window}
    return theirs(name, "swa", swa_req_ring=ring, **sides)


def test_single_tokens_are_lent_by_ours() -> None:
    ours = allocator_for(tokens(5))
    assert type(ours) is SGLangTokenAllocator
    assert isinstance(ours, SlotAllocator)
    assert not isinstance(ours, SWAAllocator)
    assert (ours.size, ours.size_full, ours.page_size, ours.get_kvcache()) == (5, 5, 1, "the pool")
    lent = ours.alloc(2)
    assert lent is not None
    assert lent.tolist() == [1, 2]
    assert ours.free_pages.tolist() == [3, 4, 5]
    ours.free_page_ids(lent)
    assert ours.available_size() == 5


def test_a_pair_of_single_tokens_has_sides_of_ours() -> None:
    ours = allocator_for(pair(tokens(6), tokens(3)))
    assert type(ours) is SGLangSWAAllocator
    assert isinstance(ours, SWAAllocator)
    assert (ours.size_full, ours.size_swa, ours.size, ours.swa_req_ring) == (6, 3, 3, False)
    assert type(ours.full_attn_allocator) is type(ours.swa_attn_allocator) is SGLangTokenAllocator
    assert not hasattr(ours, "free_pages"), "sglang then looks at the sides"
    lent = ours.alloc(2)
    assert lent is not None
    assert ours.translate_swa_indices_for_transfer(lent).tolist() == [1, 2]
    ours.free_swa(lent)
    ours.free_full_segments([(lent, 0)])
    assert (ours.full_available_size(), ours.swa_available_size()) == (6, 3)


def test_a_pair_keeps_the_sides_that_are_ours() -> None:
    paged: dict[str, Any] = {"page_size": 4, "kvcache": None, **SPACE}
    full, window = SGLangPageAllocator(16, **paged), SGLangPageAllocator(8, **paged)
    ours = allocator_for(pair(full, window))
    assert (ours.full_attn_allocator, ours.swa_attn_allocator) == (full, window)
    assert ours.page_size == 4


def test_every_other_allocator_stays_what_it_is() -> None:
    others = [
        tokens(4, "SomeonesAllocator"),
        pair(tokens(6), tokens(6), "PureSWATokenToKVPoolAllocator"),
        pair(tokens(6), tokens(6), ring=True),
        allocator_for(tokens(4)),
        None,
    ]
    assert [allocator_for(each) for each in others] == others


def table() -> SGLangReqToToken:
    return SGLangReqToToken(3, 8, "cpu", enable_memory_saver=False)


def test_rows_are_lent_without_requests_too() -> None:
    made = table()
    assert isinstance(made, RequestPool)
    rows = made.alloc_rows(2)
    assert rows is not None
    assert made.alloc_rows(0) == []
    assert made.alloc_rows(2) is None
    assert (len(made.free_slots), made.req_generation[rows].tolist()) == (1, [1, 1])
    made.free_rows(rows)
    assert sorted(made.free_slots) == [1, 2, 3]
    with pytest.raises(ValueError, match="is not handed out"):
        made.free_rows(rows)


def test_there_is_no_cache_beside_the_table() -> None:
    made = table()
    made.alloc_aux_to_lengths(target_seq_lens_cpu=torch.tensor([4]))
    made.reset_aux_cache_allocator()
    assert made.schedulable_token_capacity(288) == 288


def states(**shape: Any) -> SGLangStatePool:
    shapes = SimpleNamespace(conv=[(6, 3)], temporal=(2, 4, 4), **shape)
    dtypes = SimpleNamespace(conv=torch.bfloat16, temporal=torch.float32)
    params = SimpleNamespace(shape=shapes, dtype=dtypes)
    return SGLangStatePool(size=4, cache_params=params, mamba_layer_ids=[1, 5], device="cpu")


def test_states_have_the_shapes_of_the_configuration_and_no_replay() -> None:
    made = states()
    assert isinstance(made, StatePool)
    assert made.mamba_cache.conv[0].shape == (2, 5, 6, 3)
    assert made.mamba_cache.temporal.dtype == torch.float32
    layer: Any = made.mamba2_layer_cache(1)
    layer.temporal[2] = 1
    assert made.mamba_cache.temporal[1, 2].eq(1).all()
    assert layer.replayssm_d is None
    assert (made.replayssm_write_pos, made.enable_linear_replayssm) == (None, False)


def test_what_tensor_parallelism_splits_is_as_the_configuration_says() -> None:
    assert states().get_state_dim_per_tensor() == [6, 6, 2, 2]
    kimi = states(conv_slice_axis=1, conv_shard_groups=[2, 1])
    assert kimi.get_state_dim_per_tensor() == [3, 3, 2, 2]
    assert kimi.get_state_conv_shard_groups() == [[2, 1], [2, 1], None, None]


def test_a_table_with_states_lends_rows_and_slots() -> None:
    pool, slots = states(), SGLangStateSlots(4, "cpu")
    made = SGLangStateReqToToken(
        size=3,
        max_context_len=8,
        device="cpu",
        enable_memory_saver=False,
        mamba_pool=pool,
        mamba_allocator=slots,
        enable_mamba_extra_buffer=False,
    )
    assert isinstance(made, StateRequestPool)
    assert isinstance(slots, StateSlotAllocator)
    no_slot = {"mamba_pool_idx": None, "mamba_ping_pong_track_buffer": None}
    one = SimpleNamespace(kv=SimpleNamespace(req_pool_idx=None, **no_slot))
    assert made.alloc([one]) == [3]
    assert slots.free_slots.tolist() == [2, 3, 4]
    assert made.alloc_rows(1) == [2]
    assert (slots.available_size(), len(made.free_slots)) == (3, 1)
    assert (made.mamba2_layer_index(5), made.mamba_v2p_table) == (1, None)
    assert made.get_state_buf_infos() == pool.get_contiguous_buf_infos()
    assert made.get_state_dim_per_tensor() == pool.get_state_dim_per_tensor()
    assert made.get_state_slice_outer_counts() == pool.get_state_slice_outer_counts()
    assert made.get_state_conv_shard_groups() == pool.get_state_conv_shard_groups()
