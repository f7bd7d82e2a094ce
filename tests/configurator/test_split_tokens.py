"""Ranks that split a request's tokens: index keys of all of them on each; bytes by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PlanError,
    ServingOptions,
    SpeculativeOptions,
    build,
    example_config,
    plan,
)
from kvproto.protocols import (
    AllocatorRequest,
    DeclaresRegions,
    DSALeafRequest,
    IndexerCapable,
    bytes_of_pool,
    supports,
)
from kvproto.reference import CORE
from tests.configurator.test_build import NOWHERE, ON_CPU, described
from tests.configurator.test_plan import GIB, planned

FOUR = ParallelLayout(tp_size=8, dcp_size=4)
DRAFTS = SpeculativeOptions(kind="eagle", draft_tokens=2, draft_layers=1)


def test_each_rank_has_the_index_keys_of_all() -> None:
    made = planned("deepseek_v32", FOUR, page_size=64)
    assert isinstance(made.pool, DSALeafRequest)
    # A row of a rank's own token, and four keys with their scales.
    cost = 61 * (576 * 2 + 4 * (128 + 4))
    assert made.bytes_per_token == cost
    assert made.pool.size == (40 * GIB - 64 * cost) // cost // 64 * 64
    assert bytes_of_pool(made.pool) == (made.pool.size + 64) * cost
    assert isinstance(made.allocator, AllocatorRequest)
    assert (made.allocator.size, made.allocator.page_size) == (4 * made.pool.size, 256)
    assert made.pool.index_page_size == 64


def test_a_draft_has_rows_and_keys_of_all() -> None:
    made = planned("deepseek_v32", FOUR, page_size=64, speculative=DRAFTS)
    assert isinstance(made.draft, DSALeafRequest)
    assert made.draft.dcp_replicated
    assert (made.draft.size, made.draft.page_size) == (made.allocator.size, 256)
    assert made.draft.index_page_size == 64
    draft = 576 * 2 + 132
    assert bytes_of_pool(made.draft) == (made.draft.size + 256) * draft
    assert made.bytes_per_token == 61 * (576 * 2 + 4 * 132) + 4 * draft


@pytest.mark.parametrize("platform", [NOWHERE, ON_CPU], ids=["meta", "cpu"])
def test_both_are_built_as_planned(platform: Any) -> None:
    few: dict[str, Any] = {"max_total_tokens": 128, "speculative": DRAFTS}
    made = build(planned("deepseek_v32", FOUR, page_size=64, **few), platform, CORE)
    for pool, asked in ((made.pool, made.plan.pool), (made.draft, made.plan.draft)):
        assert isinstance(asked, DSALeafRequest)
        assert supports(pool, DeclaresRegions)
        assert described(pool.buffer_regions()) == bytes_of_pool(asked)
        assert isinstance(pool, IndexerCapable)
        assert pool.index_page_size == 64
        # Twelve pages of 64 tokens: two and the reserved one of four ranks.
        assert pool.get_index_k_with_scale_buffer(0).shape == (12, 64 * 132)
    assert made.views is not None
    assert made.views.movable is None
    assert made.views.host_copy is None
    assert made.draft_views is not None
    assert made.draft_views.movable is not None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("glm5_next", "dcp_size=2: the 16 tokens of an index key are several ranks'; give 1"),
        ("gpt_oss", "dcp_size=2: allocators of window pairs number the tokens of one rank; give 1"),
    ],
)
def test_what_ranks_cannot_split(name: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        planned(name, ParallelLayout(tp_size=2, dcp_size=2), page_size=64)
    assert str(error.value).startswith(said)


def test_ids_of_ranks_have_no_rows_on_a_host() -> None:
    subset: dict[str, Any] = {"host_to_device_ratio": 2, "prefix_cache": False}
    with pytest.raises(PlanError, match="dcp_size=4: ids that ranks number together have no rows"):
        planned("deepseek_v32", FOUR, page_size=64, **subset)


def test_index_rows_go_with_the_rows() -> None:
    config = example_config("minimax_m3_vl")
    config["text_config"]["sparse_attention_config"] = {
        "sparse_attention_freq": [0] * 3 + [1] * 57,
        "sparse_index_dim": 128,
    }
    shape = ModelShape.from_hf_config(config)
    with pytest.raises(PlanError, match="dcp_size=2: index rows lie at the slots of their rows"):
        plan(
            shape,
            ServingOptions(page_size=64),
            ParallelLayout(tp_size=2, dcp_size=2),
            MemoryBudget.of_caches(GIB),
        )
