"""What cannot be served is refused before anything is sized, by the option that it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvproto.configurator import (
    CPU,
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PlanError,
    ServingOptions,
    SpeculativeOptions,
    StateOptions,
    example_config,
    plan,
)
from kvproto.protocols import MHALeafRequest
from tests.configurator.test_plan import GIB, ONE, planned


@pytest.mark.parametrize(
    ("name", "ranks", "options", "said"),
    [
        ("deepseek_v4", {}, {}, "offers no compressed_pool; use a platform that does"),
        ("glm5_next", {"tp_size": 2, "dcp_size": 2}, {}, "dcp_size=2: the 16 tokens of an index"),
        ("glm5_next", {}, {"page_size": 8}, "page_size=8: 16 tokens share an index key"),
        ("gpt_oss", {}, {"swa_full_tokens_ratio": 0.00001}, "a request needs more than 129 window"),
        (
            "gpt_oss",
            {},
            {"page_size": 256, "max_total_tokens": 300},
            "max_total_tokens=300: a request needs more than 384 window tokens, the pool would",
        ),
        ("llama", {}, {"page_size": 64, "max_total_tokens": 10}, "max_total_tokens=10: a page has"),
        ("llama", {}, {"max_total_tokens": 1}, "max_total_tokens=1: 1 tokens serve no request"),
        ("mamba2", {"tp_size": 3}, {}, "128 heads of recurrent state cannot be split over 3"),
        ("qwen3_next", {}, {"state": StateOptions(slots=2)}, "slots=2: 2 state slots of"),
        ("mamba2", {}, {"state": StateOptions(slots=100_000)}, "slots=100000: their state takes"),
        (
            "mamba2",
            {},
            {"prefix_cache": False, "max_running_requests": 50_000},
            "max_running_requests=50000: their state takes",
        ),
        ("llama", {"tp_size": 3}, {}, "tp_size=3: 32 KV heads can neither be split over 3 ranks"),
        ("llama", {"tp_size": 12, "dcp_size": 2}, {}, "tp_size=12: 32 KV heads can neither be"),
        ("llama", {"pp_size": 33}, {}, "pp_size=33: the model has 32 layers, and each stage"),
        ("lfm2", {}, {"kv_cache_dtype": "mxfp8"}, "of a row share a scale, and head_dim is 80"),
        ("llama", {}, {"kv_cache_dtype": "fp9"}, "kv_cache_dtype='fp9': it is none of its values"),
        ("llama", {}, {"layout": "composite"}, "give one of 'nhd', 'hnd', 'paged_nhd'"),
        (
            "llama",
            {},
            {"speculative": SpeculativeOptions(kind="eagle", draft_tokens=2)},
            "draft_layers=None: the config of 'llama' states none",
        ),
    ],
)
def test_what_cannot_be_served_says_which_option(
    name: str, ranks: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as error:
        planned(name, ParallelLayout(**ranks), **options)
    assert said in str(error.value)


@given(st.integers(1, 64), st.integers(1, 64))
def test_every_head_is_kept_by_some_rank_or_the_plan_is_refused(heads: int, ranks: int) -> None:
    shape = ModelShape.from_hf_config(example_config("llama") | {"num_key_value_heads": heads})
    budget, layout = MemoryBudget.of_caches(40 * GIB), ParallelLayout(tp_size=ranks)
    if heads % ranks and ranks % heads:
        with pytest.raises(PlanError, match=rf"^tp_size={ranks}: {heads} KV heads"):
            plan(shape, ServingOptions(), layout, budget)
        return
    made = plan(shape, ServingOptions(), layout, budget)
    assert isinstance(made.pool, MHALeafRequest)
    copies = max(1, ranks // heads)
    assert made.pool.head_num * ranks == heads * copies


@pytest.mark.parametrize(
    ("ranks", "said"),
    [
        ({"tp_size": 0}, "tp_size=0: ranks are counted from 1; give at least 1"),
        ({"tp_size": 4, "dp_attention_size": 3}, "dp_attention_size=3: 4 tensor-parallel ranks"),
        ({"tp_size": 4, "dcp_size": 3}, "dcp_size=3: 4 ranks share a layer's attention"),
        ({"pp_size": 2, "pp_layers": (1,)}, "pp_layers=(1,): there are 2 stages"),
    ],
)
def test_ranks_that_cannot_be(ranks: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as error:
        ParallelLayout(**ranks)
    assert str(error.value).startswith(said)


def test_memory_that_is_spent_says_the_least_fraction() -> None:
    budget = MemoryBudget(free_bytes=10 * GIB, total_bytes=100 * GIB, static_fraction=0.85)
    with pytest.raises(PlanError, match=r"nothing is left for caches; give more than 0\.900"):
        _ = budget.cache_bytes
    assert replace(budget, static_fraction=0.95).cache_bytes == pytest.approx(5 * GIB, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "changed", "subsystem"),
    [
        ("deepseek_v4", {}, "compressed_pool"),
        ("qwen4_exp", {"indexer_head_dim": 64, "indexer_compress_ratio": 8}, "qsa_pool"),
        ("qwen4_exp", {"ple_layer_ids": [2, 7]}, "ple_state"),
    ],
)
def test_what_no_leaf_holds_is_refused_by_name(
    name: str, changed: dict[str, Any], subsystem: Any
) -> None:
    config = example_config(name)
    config.get("text_config", config).update(changed)
    shape, options = ModelShape.from_hf_config(config), ServingOptions(page_size=64)
    budget = MemoryBudget.of_caches(40 * GIB)
    with pytest.raises(PlanError) as error:
        plan(shape, options, ONE, budget)
    assert error.value.option == "model_type"
    said = f"and the platform 'cpu' offers no {subsystem}; use a platform that does"
    assert str(error.value).endswith(said)
    if subsystem == "ple_state":
        # Of what is kept beside the slots nothing is counted: whoever offers it reserves it.
        offering = replace(CPU, subsystems=frozenset({subsystem}))
        made = plan(shape, options, ONE, budget, platform=offering)
        assert made == planned(name, page_size=64)
