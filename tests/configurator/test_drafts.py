"""Drafts with a config of their own, beside every kind of model; bytes by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    build,
    example_config,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.protocols import (
    AllocatorRequest,
    DSALeafRequest,
    MHALeafRequest,
    MLALatent,
    MLALeafRequest,
    SWAComposite,
    SWAPoolRequest,
    bytes_of_pool,
    bytes_of_state,
    supports,
)
from kvproto.reference import CORE
from tests.configurator.test_build import ON_CPU
from tests.configurator.test_plan import GIB, ONE, planned, shape_of

PLAIN = {
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "max_position_embeddings": 4096,
}
"""An EAGLE head: one layer of 8 heads of 64."""


def drafted(
    name: str,
    draft: dict[str, Any] | str,
    ranks: ParallelLayout = ONE,
    spec: dict[str, Any] | None = None,
    **options: Any,
) -> PoolPlan:
    config = example_config(draft) if isinstance(draft, str) else draft
    asked: dict[str, Any] = {"kind": "eagle", "draft_tokens": 4} | (spec or {})
    speculative = SpeculativeOptions(**asked)
    return plan(
        shape_of(name),
        ServingOptions(page_size=64, speculative=speculative, **options),
        ranks,
        MemoryBudget.of_caches(40 * GIB),
        draft_shape=ModelShape.from_hf_config(config),
    )


ROWS = 8 * (64 + 64) * 2
"""Bytes of a token of `PLAIN` in bfloat16."""

BY_HAND: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], int]] = [
    ("llama", {}, {}, {}, ROWS),
    ("deepseek_v3", {}, {}, {}, ROWS),
    ("deepseek_v32", {}, {}, {"kv_cache_dtype": "fp8_e4m3"}, ROWS // 2),
    ("qwen3_next", {}, {}, {}, ROWS),
    ("gpt_oss", {}, {}, {}, ROWS),
    ("llama", {"tp_size": 4}, {}, {}, ROWS // 4),
    ("llama", {"tp_size": 16}, {}, {}, ROWS // 8),
    ("llama", {"tp_size": 8, "dp_attention_size": 4}, {}, {}, ROWS // 2),
    ("llama", {"tp_size": 8}, {"draft_attn_tp_size": 2}, {}, ROWS // 2),
    ("llama", {"tp_size": 4, "dcp_size": 2}, {}, {}, 2 * ROWS // 4),
    ("llama", {}, {"draft_kv_cache_dtype": "float32"}, {"kv_cache_dtype": "fp8_e4m3"}, 2 * ROWS),
    ("llama", {}, {"kind": "dflash"}, {"role": "prefill"}, ROWS),
]


@pytest.mark.parametrize(("name", "ranks", "spec", "options", "expected"), BY_HAND)
def test_a_draft_has_the_rows_of_its_own_config(
    name: str,
    ranks: dict[str, Any],
    spec: dict[str, Any],
    options: dict[str, Any],
    expected: int,
) -> None:
    layout = ParallelLayout(**ranks)
    made = drafted(name, PLAIN, layout, spec, **options)
    assert isinstance(made.draft, MHALeafRequest)
    scale = layout.dcp_size
    assert (made.draft.size, made.draft.page_size) == (made.tokens.full * scale, 64 * scale)
    assert made.draft_windows == "none"
    assert bytes_of_pool(made.draft) == expected * (made.tokens.full + 64)
    assert made.allocated_bytes <= made.cache_bytes
    assert plan_from_json(plan_to_json(made)) == made


def test_a_latent_draft_beside_rows_by_head_and_the_other_way_round() -> None:
    made = drafted("llama", "deepseek_v3")
    # A whole model's config: its draft is the one layer that it counts for prediction.
    assert isinstance(made.draft, MLALeafRequest)
    assert made.draft.layer_num == 1
    assert bytes_of_pool(made.draft) == (made.tokens.full + 64) * (512 + 64) * 2
    indexed = drafted("llama", "deepseek_v32", spec={"draft_layers": 2})
    assert isinstance(indexed.draft, DSALeafRequest)
    assert bytes_of_pool(indexed.draft) == (indexed.tokens.full + 64) * 2 * (576 * 2 + 132)


def test_a_draft_in_the_models_window_slots() -> None:
    made = drafted("gemma2", "gpt_oss", spec={"draft_layers": 2})
    assert made.draft_windows == "shared"
    assert isinstance(made.draft, SWAPoolRequest)
    assert isinstance(made.pool, SWAPoolRequest)
    # One layer of either kind, 8 heads of 64 and 64 in two bytes.
    row = 8 * 128 * 2
    assert made.draft.full.size == made.pool.full.size
    assert made.draft.window.size == made.pool.window.size < made.pool.full.size
    assert bytes_of_pool(made.draft) == (made.tokens.full + made.tokens.window + 128) * row
    # 13 layers of either kind in the model, 4 heads of 256 and 256; 0.8 window tokens to a full.
    side = 13 * 4 * 512 * 2 + row
    assert made.bytes_per_token == -(-side * 18 // 10)
    assert made.tokens.full == (40 * GIB - 2 * 64 * side) * 10 // (18 * side) // 64 * 64


@pytest.mark.parametrize(
    ("name", "draft"),
    [
        ("llama", "gpt_oss"),  # the model has no windows
        ("gpt_oss", "gemma2"),  # the draft's window is longer than the model's
        ("mistral", "gpt_oss"),  # the model has windows alone: one space of slots
    ],
)
def test_a_draft_whose_windows_are_its_own_spans_every_location(name: str, draft: str) -> None:
    made = drafted(name, draft, spec={"draft_layers": 2})
    assert made.draft_windows == "own"
    assert isinstance(made.draft, SWAPoolRequest)
    assert made.draft.window.size == made.draft.full.size == made.tokens.capacity
    assert plan_from_json(plan_to_json(made)) == made


def test_a_draft_beside_rings_has_windows_of_its_own() -> None:
    few: dict[str, Any] = {"max_total_tokens": 1024, "max_running_requests": 2}
    made = drafted("gemma2", "gpt_oss", spec={"draft_layers": 2}, window_storage="ring", **few)
    # No location has a peer where each request has a ring.
    assert made.draft_windows == "own"
    built = build(made, ON_CPU, CORE)
    assert built.draft_views is not None
    assert built.draft_views.swa is not None
    slots = built.allocator.alloc(64)
    assert slots is not None
    assert torch.equal(built.draft_views.swa.translate_loc_from_full_to_swa(slots), slots)


def test_layers_for_prediction_attend_to_windows_where_the_config_says_so() -> None:
    config = example_config("gpt_oss") | {
        "num_nextn_predict_layers": 3,
        "mtp_local_layer_ids": [0, 2],
    }
    options = ServingOptions(
        page_size=64, speculative=SpeculativeOptions(kind="eagle", draft_tokens=4)
    )
    shape = ModelShape.from_hf_config(config)
    made = plan(shape, options, ONE, MemoryBudget.of_caches(40 * GIB))
    assert isinstance(made.draft, SWAPoolRequest)
    assert (made.draft_windows, made.draft.swa_attention_layer_ids) == ("own", (0, 2))
    assert made.draft.full_attention_layer_ids == (1,)
    # Each of the three at every location, 18 of either kind in the model.
    row = 8 * 128 * 2
    assert made.bytes_per_token == -(-((18 + 3) * 10 + 18 * 8) * row // 10)
    whole = replace(options, window_pools=False)
    without = plan(shape, whole, ONE, MemoryBudget.of_caches(40 * GIB))
    assert isinstance(without.draft, MHALeafRequest)
    assert without.bytes_per_token == (36 + 3) * row


def test_a_draft_of_a_model_without_rows_has_memory_beside_its_state() -> None:
    made = drafted("mamba2", PLAIN, max_running_requests=16)
    assert made.state is not None
    assert isinstance(made.allocator, AllocatorRequest)
    assert (made.tokens.window, made.pool is None) == (0, False)
    left = 40 * GIB - bytes_of_state(made.state)
    assert left > 40 * GIB // 2
    assert made.tokens.full == (left - 64 * ROWS) // ROWS // 64 * 64


def test_drafts_share_the_memory_and_have_scratch() -> None:
    spec = SpeculativeOptions(kind="eagle", draft_tokens=4, steps=3, draft_layers=1)
    made = planned("qwen3_next", page_size=64, speculative=spec, max_running_requests=32)
    assert made.state is not None
    assert made.state.spec_state_size == 32
    assert isinstance(made.draft, MHALeafRequest)
    assert (made.draft.layer_num, made.draft.size) == (1, made.tokens.full)
    assert made.state.spec_state_size is not None
    slot = 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)
    assert bytes_of_state(made.state) == (made.state.size + 1 + 33 * 4) * slot


def test_a_prefilling_instance_verifies_nothing() -> None:
    spec = SpeculativeOptions(kind="eagle", draft_tokens=4, draft_layers=1)
    made = planned("qwen3_next", page_size=64, speculative=spec, role="prefill")
    assert made.state is not None
    assert made.state.speculative_num_draft_tokens is None


def test_the_draft_of_an_indexed_model_has_keys_in_every_layer() -> None:
    spec = SpeculativeOptions(kind="eagle", draft_tokens=2)
    config = example_config("glm_moe_dsa") | {"index_topk_freq": 4, "indexer_types": None}
    shape = replace(ModelShape.from_hf_config(config), draft_layers=1)
    options = ServingOptions(page_size=64, speculative=spec)
    made = plan(shape, options, ONE, MemoryBudget.of_caches(40 * GIB))
    assert isinstance(made.draft, DSALeafRequest)
    assert made.draft.skip_topk_layers == ()
    assert isinstance(made.pool, DSALeafRequest)
    assert sum(made.pool.skip_topk_layers) > 40


def test_the_last_stage_alone_has_the_draft() -> None:
    options = ServingOptions(
        page_size=64, speculative=SpeculativeOptions(kind="eagle", draft_tokens=4)
    )
    shape, draft = shape_of("llama"), ModelShape.from_hf_config(PLAIN)
    first, last = (
        plan(
            shape,
            options,
            ParallelLayout(pp_size=2),
            MemoryBudget.of_caches(GIB),
            pp_rank=rank,
            draft_shape=draft,
        )
        for rank in (0, 1)
    )
    assert first.draft is None
    assert last.draft is not None
    assert first.tokens == last.tokens
    # 16 layers of 32 heads of 128 and 128, and the draft; its page is reserved as well.
    cost = 16 * 32 * 256 * 2 + ROWS
    assert last.tokens.full == (GIB - 64 * cost) // cost // 64 * 64


@pytest.mark.parametrize(("name", "draft"), [("gemma2", "gpt_oss"), ("llama", "gpt_oss")])
def test_windows_of_a_draft_are_found_where_they_were_planned(name: str, draft: str) -> None:
    few: dict[str, Any] = {"max_total_tokens": 8192, "swa_full_tokens_ratio": 1.0}
    made = build(drafted(name, draft, spec={"draft_layers": 2}, **few), ON_CPU, CORE)
    assert made.draft is not None
    assert made.draft_views is not None
    pair = made.draft_views.swa
    assert isinstance(pair, SWAComposite)
    slots = made.allocator.alloc(64)
    assert slots is not None
    if made.plan.draft_windows == "own":
        expected = slots
    else:
        assert isinstance(made.pool, SWAComposite)
        expected = made.pool.translate_loc_from_full_to_swa(slots)
        assert (expected > 0).all()
    assert torch.equal(pair.translate_loc_from_full_to_swa(slots), expected)
    last = pair.full_kv_pool.size + pair.full_kv_pool.page_size - 1
    ends = torch.tensor([-1, 0, last])
    if made.plan.draft_windows == "own":
        assert pair.translate_loc_from_full_to_swa(ends).tolist() == [-1, 0, last]


def test_a_draft_of_latent_rows_is_built() -> None:
    made = build(drafted("llama", "deepseek_v3", max_total_tokens=1024), ON_CPU, CORE)
    assert made.draft_views is not None
    assert made.draft_views.latent is not None
    assert supports(made.draft, MLALatent)


@pytest.mark.parametrize(
    ("draft", "spec", "ranks", "said"),
    [
        (
            "qwen3_next",
            {},
            {},
            "draft_shape='qwen3_next': its layers keep recurrent state, and a draft has slots of "
            "tokens alone; use a draft whose layers attend to rows",
        ),
        (
            "deepseek_v4",
            {"draft_layers": 1},
            {},
            "draft_shape='deepseek_v4': its layers keep rows of several tokens",
        ),
        (PLAIN, {"draft_layers": 2}, {}, "draft_layers=2: the draft's config has 1 layers; give"),
        (
            PLAIN,
            {"draft_attn_tp_size": 3},
            {"tp_size": 4},
            "draft_attn_tp_size=3: 4 tensor-parallel ranks cannot be split into groups of that "
            "many; give a divisor of tp_size",
        ),
        (
            PLAIN | {"num_key_value_heads": 6},
            {"draft_attn_tp_size": 4},
            {"tp_size": 4},
            "draft_attn_tp_size=4: 6 KV heads can neither be split over 4 ranks nor repeated on "
            "them; give a divisor or a multiple of the draft's heads",
        ),
        (
            PLAIN | {"num_key_value_heads": 6},
            {},
            {"tp_size": 8, "dp_attention_size": 2},
            "draft_attn_tp_size=4: 6 KV heads can neither",
        ),
        (PLAIN, {"draft_attn_tp_size": 0}, {}, "draft_attn_tp_size=0: it is a count; give at"),
        (
            PLAIN | {"head_dim": 80},
            {"draft_kv_cache_dtype": "mxfp8"},
            {},
            "draft_kv_cache_dtype='mxfp8': 32 elements of a row share a scale, and head_dim is 80; "
            "store rows in another type",
        ),
        (PLAIN, {"draft_kv_cache_dtype": "int4"}, {}, "draft_kv_cache_dtype='int4': it is none"),
        (PLAIN, {"draft_layers": 0}, {}, "draft_layers=0: it is a count; give at least 1"),
    ],
)
def test_a_draft_that_cannot_be_served_says_which_option(
    draft: dict[str, Any] | str, spec: dict[str, Any], ranks: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as error:
        drafted("llama", draft, ParallelLayout(**ranks), spec)
    assert str(error.value).startswith(said)
