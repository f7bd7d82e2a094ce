"""Plans against bytes worked out by hand, and against what must hold of every plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    StateOptions,
    example_config,
    example_names,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.configurator.token_budget import Tokens
from kvproto.protocols import (
    DSALeafRequest,
    HybridPoolRequest,
    MHALeafRequest,
    PureSWAAllocatorRequest,
    SparseIndexLeafRequest,
    StateRequestPoolRequest,
    SWAPoolRequest,
    bytes_of_pool,
    bytes_of_state,
)

GIB = 1 << 30
ONE = ParallelLayout()
PLANNED = tuple(name for name in example_names() if name != "deepseek_v4")


def shape_of(name: str) -> ModelShape:
    shape = ModelShape.from_hf_config(example_config(name))
    return shape if shape.context_len else replace(shape, context_len=4096)


def planned(
    name: str, ranks: ParallelLayout = ONE, memory: int = 40 * GIB, **options: Any
) -> PoolPlan:
    budget = MemoryBudget.of_caches(memory)
    return plan(shape_of(name), ServingOptions(**options), ranks, budget)


# Full bytes, by hand: layers x heads of a rank x (K + V width) x bytes of an element.
BY_HAND: list[tuple[str, dict[str, Any], dict[str, Any], int]] = [
    ("llama", {}, {}, 32 * 32 * (128 + 128) * 2),
    ("llama", {"tp_size": 8}, {}, 32 * 4 * (128 + 128) * 2),
    ("llama", {"tp_size": 8}, {"kv_cache_dtype": "fp8_e4m3"}, 32 * 4 * (128 + 128)),
    ("llama", {"pp_size": 4}, {"kv_cache_dtype": "fp8_e5m2"}, 8 * 32 * (128 + 128)),
    ("llama", {}, {"kv_cache_dtype": "mxfp8"}, 32 * 32 * (256 + 256 // 32)),
    ("llama", {}, {"kv_cache_dtype": "fp4_mx16"}, 32 * 32 * (256 // 2 + 256 // 16)),
    ("llama", {}, {"kv_cache_dtype": "nvfp4"}, 32 * 32 * (256 // 2 + 256 // 16) + 32 * 256),
    ("qwen3_moe", {"tp_size": 8}, {}, 24 * 1 * (64 + 64) * 2),
    ("deepseek_v3", {}, {}, 61 * (512 + 64) * 2),
    ("deepseek_v3", {"tp_size": 16}, {"kv_cache_dtype": "fp8_e4m3"}, 61 * (512 + 64)),
    ("deepseek_v3", {}, {"kv_cache_dtype": "fp4_mx16"}, 61 * (576 // 2 + 576 // 16)),
    ("deepseek_v32", {}, {}, 61 * ((512 + 64) * 2 + 128 + 4)),
    ("deepseek_v32", {}, {"kv_cache_dtype": "fp8_e4m3"}, 61 * (656 + 132)),
    ("deepseek_v32", {}, {"kv_cache_dtype": "fp8_e4m3", "dsa_rows": "raw"}, 61 * (576 + 132)),
    ("qwen3_next", {}, {}, 12 * 2 * (256 + 256) * 2),
    ("kimi_linear", {"tp_size": 8}, {}, 6 * (512 + 64) * 2),
    ("mimo_v2_flash", {}, {"window_pools": False}, 48 * 4 * (192 + 128) * 2),
]


@pytest.mark.parametrize(("name", "ranks", "options", "expected"), BY_HAND)
def test_bytes_of_a_token(
    name: str, ranks: dict[str, Any], options: dict[str, Any], expected: int
) -> None:
    made = planned(name, ParallelLayout(**ranks), page_size=64, **options)
    assert made.bytes_per_token == expected
    left = 40 * GIB - (0 if made.state is None else bytes_of_state(made.state))
    assert made.tokens.full == (left - 64 * expected) // expected // 64 * 64


def test_sparse_layers_keep_index_rows_beside_their_rows() -> None:
    config = example_config("minimax_m3_vl")
    config["text_config"]["sparse_attention_config"] = {
        "sparse_attention_freq": [0] * 3 + [1] * 57,
        "sparse_disable_index_value": [1] * 40 + [0] * 20,
        "sparse_index_dim": 128,
    }
    shape = ModelShape.from_hf_config(config)
    options = ServingOptions(page_size=128)
    made = plan(shape, options, ParallelLayout(tp_size=4), MemoryBudget.of_caches(40 * GIB))
    assert isinstance(made.pool, SparseIndexLeafRequest)
    # K and V of one head in 60 layers, a key in 57 of them, a value in 20 of those.
    assert made.bytes_per_token == 60 * 2 * 128 * 2 + (57 + 20) * 128 * 2
    assert plan_from_json(plan_to_json(made)) == made
    # Quantised rows leave index rows alone, until those are asked for in the same type.
    in_fp8 = replace(options, kv_cache_dtype="fp8_e4m3")
    for stored, element in ((in_fp8, 2), (replace(in_fp8, index_rows="cache"), 1)):
        fp8 = plan(shape, stored, ParallelLayout(tp_size=4), MemoryBudget.of_caches(40 * GIB))
        assert fp8.bytes_per_token == 60 * 2 * 128 + (57 + 20) * 128 * element


def test_tokens_that_share_an_index_key_share_its_bytes() -> None:
    made = planned("glm5_next", page_size=64)
    # 11 layers of 512 two-byte numbers, and a sixteenth of 128 bytes and a scale, rounded up.
    assert made.bytes_per_token == 11 * 512 * 2 + -(-11 * 132 // 16)
    config = example_config("glm5_next")
    config["text_config"] |= {"index_kpool_compress": True}
    shape = ModelShape.from_hf_config(config)
    budget = MemoryBudget.of_caches(40 * GIB)
    options = ServingOptions(page_size=64, max_running_requests=32, max_total_tokens=6400)
    weighed = plan(shape, options, ONE, budget)
    plain = plan(shape_of("glm5_next"), options, ONE, budget)
    # Two rings of 16 tokens x 128 two-byte numbers, for 32 requests and for padding.
    rings = 11 * 2 * 33 * 16 * 128 * 2
    assert weighed.bytes_per_token == plain.bytes_per_token
    assert weighed.allocated_bytes - plain.allocated_bytes == rings
    # As many rings as the table of one attention group has rows: none for requests to come.
    grouped = replace(options, pre_alloc_size=100)
    spread = plan(shape, grouped, ParallelLayout(tp_size=8, dp_attention_size=8), budget)
    assert isinstance(spread.pool, HybridPoolRequest)
    assert isinstance(spread.pool.full, DSALeafRequest)
    assert spread.pool.full.max_running_requests == 32 // 8


def test_a_window_pair_splits_its_bytes_by_the_ratio() -> None:
    made = planned("gpt_oss", page_size=16, swa_full_tokens_ratio=0.25)
    # 18 layers on either side, 8 heads of 64 and 64, two bytes.
    side = 18 * 8 * 128 * 2
    assert made.tokens.full == (40 * GIB - 2 * 16 * side) * 4 // (5 * side) // 16 * 16
    assert made.tokens.window == made.tokens.full // 4 // 16 * 16
    assert isinstance(made.pool, SWAPoolRequest)
    assert made.pool.swa_attention_layer_ids == tuple(range(0, 36, 2))


def test_running_requests_can_size_the_window_pool() -> None:
    made = planned(
        "gpt_oss",
        page_size=16,
        prefix_cache=False,
        max_running_requests=64,
        chunked_prefill_size=2048,
    )
    # Each: the window, 128 steps since the last eviction, a page begun, a page to decode into.
    # All: two chunks in flight, and a page.
    assert made.tokens.window == -(-(64 * (128 + 128 + 16 + 16) + 2 * 2048 + 16) // 16) * 16


def test_a_cap_leaves_what_running_requests_need_of_the_window_pool() -> None:
    few: dict[str, Any] = {"prefix_cache": False, "max_running_requests": 2}
    made = planned("gpt_oss", page_size=16, chunked_prefill_size=512, max_total_tokens=9600, **few)
    wanted = -(-(2 * (128 + 128 + 16 + 16) + 2 * 512 + 16) // 16) * 16
    assert made.tokens == Tokens(9600, wanted)
    tiny = planned("gpt_oss", page_size=16, chunked_prefill_size=512, max_total_tokens=960, **few)
    assert tiny.tokens == Tokens(960, 960)


def test_a_window_of_no_page_is_refused_before_it_costs_one() -> None:
    # Two full pages of 256 and the reserved ones fit, and 0.8 of a page of windows rounds to none.
    with pytest.raises(PlanError, match="384 window tokens, the pool would have 0") as error:
        planned("gpt_oss", memory=35 << 20, page_size=256)
    assert (error.value.option, error.value.value) == ("cache_bytes", 35 << 20)


def test_a_model_of_windows_alone_has_one_pool() -> None:
    made = planned("mistral", page_size=16)
    assert (made.tokens.full, made.tokens.window) == (0, made.tokens.capacity)
    assert made.tokens.window == (40 * GIB - 16 * 131072) // 131072 // 16 * 16
    assert isinstance(planned("mistral").allocator, PureSWAAllocatorRequest)


def test_state_and_rows_share_by_the_ratio() -> None:
    made = planned("qwen3_next", page_size=64)
    assert isinstance(made.pool, HybridPoolRequest)
    state = made.pool.state
    assert made.state is state
    # 36 layers: 8192 channels of 3 inputs in bf16, 32 matrices of 128 x 128 in float32.
    slot = 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)
    assert state.size == int((40 * GIB * 0.9 / 1.9 - slot) // slot)
    assert made.concurrency.limit == "state_slots"
    assert made.concurrency.max_running_requests == state.size // 3
    assert isinstance(made.request_pool, StateRequestPoolRequest)
    assert made.request_pool.rows.size == state.size // 3
    tracked = planned("qwen3_next", page_size=64, state=StateOptions(tracking="eager"))
    assert isinstance(tracked.request_pool, StateRequestPoolRequest)
    assert tracked.request_pool.mamba_initial_tracking_slots == 2
    assert tracked.concurrency.max_running_requests == state.size // 5


def test_ranks_that_split_tokens_number_them_together() -> None:
    ranks = ParallelLayout(tp_size=8, dcp_size=4)
    spec = SpeculativeOptions(kind="eagle", draft_tokens=2, draft_layers=1)
    made = planned("llama", ranks, page_size=16, speculative=spec)
    assert isinstance(made.pool, MHALeafRequest)
    # 32 heads over 8 / 4 ranks; the allocator and the draft span the tokens of all four, of which
    # the draft has its heads over all 8.
    assert made.pool.head_num == 16
    assert (made.allocator.size, made.allocator.page_size) == (4 * made.pool.size, 64)
    assert isinstance(made.draft, MHALeafRequest)
    assert (made.draft.size, made.draft.page_size) == (4 * made.pool.size, 64)
    assert made.bytes_per_token == 32 * 16 * 256 * 2 + 4 * (4 * 256 * 2)


def test_every_stage_has_the_tokens_of_the_fewest() -> None:
    ranks = ParallelLayout(pp_size=3)
    shape, options = shape_of("llama"), ServingOptions(page_size=16)
    stages = [
        plan(shape, options, ranks, MemoryBudget.of_caches(GIB), pp_rank=rank) for rank in range(3)
    ]
    assert [stage.layers for stage in stages] == [(0, 10), (10, 21), (21, 32)]
    assert len({stage.tokens for stage in stages}) == 1
    assert stages[0].shares[-1].bytes > stages[1].shares[-1].bytes
    for stage in stages:
        assert isinstance(stage.pool, MHALeafRequest)
        assert (stage.pool.start_layer, stage.pool.end_layer) == stage.layers


@pytest.mark.parametrize("name", PLANNED)
@pytest.mark.parametrize("memory", [8 * GIB, 141 * GIB])
def test_what_is_predicted_is_what_the_requests_ask_for(name: str, memory: int) -> None:
    made = planned(name, memory=memory, page_size=64)
    asked = 0 if made.pool is None else bytes_of_pool(made.pool)
    assert made.allocated_bytes == asked
    assert made.allocated_bytes + made.shares[-1].bytes == memory
    assert made.shares[-1].bytes >= 0


budgets = st.one_of(
    st.integers(1, 400).map(lambda gib: gib * GIB), st.integers(1, 2000).map(lambda mib: mib << 20)
)
pages = st.sampled_from([1, 16, 64, 128, 256])
ratios = st.sampled_from([0.001, 0.02, 0.25, 0.8, 1.0])


@settings(deadline=None)
@given(st.sampled_from(PLANNED), budgets, budgets, pages, ratios)
def test_more_memory_never_means_fewer_tokens(
    name: str, a: int, b: int, page: int, ratio: float
) -> None:
    less, more = sorted((a, b))
    try:
        small = planned(name, memory=less, page_size=page, swa_full_tokens_ratio=ratio)
    except PlanError:
        return  # small budgets are refused often, and say nothing of larger ones
    large = planned(name, memory=more, page_size=page, swa_full_tokens_ratio=ratio)
    assert small.tokens.capacity <= large.tokens.capacity
    for made in (small, large):
        assert made.tokens.full % page == made.tokens.window % page == 0
        assert made.allocated_bytes <= made.cache_bytes


UNRELATED: dict[str, dict[str, Any]] = {
    "llama": {
        "swa_full_tokens_ratio": 0.3,
        "window_storage": "ring",
        "dsa_rows": "raw",
        "state": StateOptions(slots=7),
    },
    "deepseek_v3": {
        "swa_full_tokens_ratio": 0.3,
        "window_pools": False,
        "prefix_cache": False,
        "chunked_prefill_size": None,
    },
    "gpt_oss": {"dsa_rows": "raw", "state": StateOptions(full_memory_ratio=3.0)},
    "qwen3_next": {"swa_full_tokens_ratio": 0.3, "dsa_rows": "raw", "window_pools": False},
}


@given(st.sampled_from(sorted(UNRELATED)), st.data())
def test_options_of_other_kinds_of_layers_change_nothing(name: str, data: st.DataObject) -> None:
    changed = data.draw(st.lists(st.sampled_from(sorted(UNRELATED[name])), unique=True))
    given_ones = {key: UNRELATED[name][key] for key in data.draw(st.permutations(changed))}
    assert planned(name, page_size=64, **given_ones) == planned(name, page_size=64)


speculations = st.one_of(
    st.none(),
    st.builds(
        SpeculativeOptions,
        kind=st.just("eagle"),
        draft_tokens=st.integers(1, 8),
        steps=st.integers(1, 4),
        topk=st.integers(1, 4),
        draft_layers=st.integers(1, 2),
    ),
)
servings = st.fixed_dictionaries(
    {
        "page_size": st.sampled_from([16, 64, 256]),
        "kv_cache_dtype": st.sampled_from(["auto", "fp8_e4m3", "float32"]),
        "role": st.sampled_from(["unified", "prefill", "decode"]),
        "prefix_cache": st.booleans(),
        "max_running_requests": st.one_of(st.none(), st.integers(1, 5000)),
        "max_total_tokens": st.one_of(st.none(), st.integers(1, 1 << 22)),
        "pre_alloc_size": st.integers(0, 64),
        "window_storage": st.sampled_from(["paged", "ring"]),
        "chunked_prefill_size": st.one_of(st.none(), st.integers(1, 1 << 16)),
        "allocator_fallback": st.sampled_from(["core", "none"]),
        "speculative": speculations,
        "state": st.builds(StateOptions, slots=st.one_of(st.none(), st.integers(1, 5000))),
    }
)


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(PLANNED), st.integers(1, 160), servings)
def test_no_plan_exceeds_its_memory(name: str, gib: int, options: dict[str, Any]) -> None:
    try:
        made = planned(name, memory=gib * GIB, **options)
    except PlanError:
        reject()  # Hypothesis fails a test that is left with few examples.
    drafted = 0 if made.draft is None else bytes_of_pool(made.draft)
    asked = 0 if made.pool is None else bytes_of_pool(made.pool)
    assert asked + drafted == made.allocated_bytes <= gib * GIB


def test_stages_of_a_model_whose_layers_attend_twice_part_no_layer() -> None:
    shape, ranks = shape_of("longcat_flash"), ParallelLayout(pp_size=8)
    budget = MemoryBudget.of_caches(GIB)
    cuts = [plan(shape, ServingOptions(), ranks, budget, pp_rank=i).layers for i in range(8)]
    # 28 layers: 3 for each of the first four stages, 4 for the others, of two ids each.
    assert [stop - start for start, stop in cuts] == [6] * 4 + [8] * 4


def test_rows_that_later_layers_read_are_on_their_stage() -> None:
    config = example_config("gemma4_text") | {"num_kv_shared_layers": 10}
    shape, budget = ModelShape.from_hf_config(config), MemoryBudget.of_caches(GIB)
    even, uneven = ParallelLayout(pp_size=3), ParallelLayout(pp_size=2, pp_layers=(17, 13))
    with pytest.raises(PlanError, match=r"pp_size=3: layers from 20 on read .* \[17, 19\]"):
        plan(shape, ServingOptions(), even, budget)
    assert plan(shape, ServingOptions(), uneven, budget, pp_rank=1).layers == (17, 30)
