"""Plans for prompts of which nothing is kept."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvproto.configurator import (
    ParallelLayout,
    PlanError,
    SpeculativeOptions,
    build,
    plan_from_json,
    plan_to_json,
)
from kvproto.protocols import (
    AllocatorRequest,
    KVPool,
    NoOpLeafRequest,
    bytes_of_pool,
    bytes_per_token,
    explain,
    supports,
)
from kvproto.reference import CORE
from tests.configurator.test_build import ON_CPU, Vendor
from tests.configurator.test_plan import PLANNED, planned

ALONE: dict[str, Any] = {"rows": "none", "prefix_cache": False, "chunked_prefill_size": None}
# Multi-head rows and no other cache; of windows, with pools that are not split.
PLAIN = (
    "glm4_moe",
    "lfm2",
    "llama",
    "minimax_m2",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "step3p7",
)


def test_tokens_cost_nothing_and_are_enough_for_every_request() -> None:
    made = planned("qwen2", page_size=16, max_running_requests=8, memory=1, **ALONE)
    assert (made.bytes_per_token, made.allocated_bytes, made.shares[-1].bytes) == (0, 0, 1)
    # The config's 32768 positions for each of eight.
    assert made.tokens.full == made.allocator.size == 8 * 32768
    assert made.allocator == AllocatorRequest(
        kind="paged", size=8 * 32768, page_size=16, device="cpu"
    )
    assert made.concurrency.max_running_requests == 8
    assert isinstance(made.pool, NoOpLeafRequest)
    assert bytes_of_pool(made.pool) == bytes_per_token(made.pool) == 0
    assert (made.pool.head_num, made.pool.head_dim, made.pool.layer_num) == (32, 128, 32)
    assert plan_from_json(plan_to_json(made)) == made


def test_without_a_number_there_are_tokens_for_one_context() -> None:
    made = planned("qwen2", **ALONE)
    assert made.tokens.full == 32768
    assert (made.concurrency.max_running_requests, made.concurrency.limit) == (2048, "default")
    capped = planned("qwen2", max_total_tokens=1000, page_size=16, **ALONE)
    assert capped.tokens.full == 1000 // 16 * 16
    assert capped.concurrency.limit == "tokens"


@pytest.mark.parametrize("rank", [0, 1])
def test_stages_keep_nothing_of_their_layers(rank: int) -> None:
    ranks = ParallelLayout(pp_size=2, tp_size=8, dp_attention_size=2)
    made = planned("qwen2", ranks, max_running_requests=8, kv_cache_dtype="fp8_e4m3", **ALONE)
    assert isinstance(made.pool, NoOpLeafRequest)
    # 32 heads over four ranks; four requests to each group.
    assert (made.pool.head_num, made.pool.start_layer, made.pool.layer_num) == (8, 0, 16)
    assert (made.pool.quant_scheme, made.tokens.full) == ("fp8_scaled", 4 * 32768)


@pytest.mark.parametrize("name", PLANNED)
def test_only_rows_by_head_can_be_left_out(name: str) -> None:
    if name in PLAIN:
        assert planned(name, **ALONE).allocated_bytes == 0
        return
    with pytest.raises(PlanError, match=r"^rows='none': a model with .* give 'kept'$"):
        planned(name, **ALONE)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("deepseek_v3", {}, "a model with latent rows reads them"),
        ("deepseek_v32", {}, "a model with latent rows and index keys reads them"),
        ("minimax_m3_vl", {}, "a model with index keys reads them"),
        ("gpt_oss", {}, "a model with windows reads them"),
        ("qwen3_next", {}, "a model with recurrent state reads them"),
        ("llama", {"kv_cache_dtype": "mxfp8"}, "a model with block scales reads them"),
        ("llama", {"role": "decode"}, "role='decode': each step reads them all; give another"),
        ("llama", {"prefix_cache": True}, "prefix_cache=True: it lends the rows of finished"),
        (
            "llama",
            {"chunked_prefill_size": 512},
            "chunked_prefill_size=512: a chunk reads the rows of those before; give "
            "chunked_prefill_size=None",
        ),
        (
            "llama",
            {"speculative": SpeculativeOptions(kind="eagle", draft_tokens=2, draft_layers=1)},
            "drafts read them; leave it out",
        ),
    ],
)
def test_whoever_reads_rows_is_named(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as error:
        planned(name, **(ALONE | options))
    assert (error.value.option, error.value.value) == ("rows", "none")
    assert said in str(error.value)


def test_ranks_that_split_tokens_read_each_others_rows() -> None:
    with pytest.raises(PlanError, match=r"dcp_size=2: ranks read each other's; give dcp_size=1"):
        planned("llama", ParallelLayout(tp_size=2, dcp_size=2), **ALONE)


def test_whole_contexts_of_windowed_layers_can_be_left_out() -> None:
    made = planned("gpt_oss", window_pools=False, max_running_requests=2, **ALONE)
    assert isinstance(made.pool, NoOpLeafRequest)
    assert made.pool.layer_num == 36


def test_what_is_built_can_be_read_and_not_written() -> None:
    vendor = Vendor()
    made = build(
        planned("qwen2", page_size=16, max_total_tokens=64, model_dtype="float16", **ALONE),
        vendor,
        CORE,
    )
    assert vendor.asked == []
    assert (made.pool, made.views, made.state, made.draft) == (None, None, None, None)
    assert made.rowless is not None
    keys, values = made.rowless.get_kv_buffer(31)
    assert keys.shape == values.shape == (16, 32, 128)
    assert keys.dtype == made.rowless.dtype == torch.float16
    assert not keys.any()
    assert (made.rowless.size, made.rowless.pool_traits.stores_kv) == (64, False)
    assert not supports(made.rowless, KVPool)
    assert explain(made.rowless, KVPool)
    # Slots are lent all the same: a scheduler admits by them.
    slots = made.allocator.alloc(64)
    assert slots is not None
    assert made.allocator.alloc(16) is None
    assert slots.shape == (64,)


def test_nothing_is_asked_of_a_platform_but_slots() -> None:
    made = build(planned("qwen2", max_total_tokens=64, **ALONE), ON_CPU, CORE)
    assert made.notes == ()
    assert made.rowless is not None


@given(
    st.sampled_from(PLAIN),
    st.fixed_dictionaries(
        {
            "page_size": st.sampled_from([1, 16, 64]),
            "kv_cache_dtype": st.sampled_from(["auto", "fp8_e4m3", "float32"]),
            "layout": st.sampled_from(["nhd", "hnd"]),
            "role": st.sampled_from(["unified", "prefill"]),
            "max_running_requests": st.one_of(st.none(), st.integers(1, 5000)),
            "max_total_tokens": st.one_of(st.none(), st.integers(64, 1 << 22)),
        }
    ),
)
def test_more_memory_changes_nothing(name: str, options: dict[str, Any]) -> None:
    small, large = (planned(name, memory=size, **options, **ALONE) for size in (1, 1 << 40))
    assert small.tokens == large.tokens
    assert small.tokens.full % options["page_size"] == 0
    assert small.allocated_bytes == large.allocated_bytes == 0
    assert plan_from_json(plan_to_json(large)) == large
