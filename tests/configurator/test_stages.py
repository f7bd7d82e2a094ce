"""Stages that keep rows of one kind alone: of windows, or of some layers and nothing beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvproto.configurator import (
    MemoryBudget,
    ParallelLayout,
    PlanError,
    ServingOptions,
    SpeculativeOptions,
    plan,
)
from kvproto.protocols import (
    HybridPoolRequest,
    MHALeafRequest,
    SWAAllocatorRequest,
    SWAPoolRequest,
    bytes_of_pool,
    bytes_of_state,
)
from tests.configurator.test_plan import GIB, planned, shape_of

BUDGET = MemoryBudget.of_caches(40 * GIB)


def test_pages_of_windows_alone_have_a_full_slot_for_each_which_takes_no_byte() -> None:
    made = planned("mistral", page_size=16)
    assert isinstance(made.allocator, SWAAllocatorRequest)
    assert made.allocator.size == made.allocator.size_swa == made.tokens.window
    assert isinstance(made.pool, SWAPoolRequest)
    assert made.pool.full.size == made.tokens.window
    assert bytes_of_pool(made.pool.full) == 0


def test_a_stage_of_rows_and_nothing_beside_them_numbers_its_layers_globally() -> None:
    ranks = ParallelLayout(pp_size=2, pp_layers=(2, 2))
    shape = shape_of("nemotron_h")
    assert shape.layers == ("linear", "no_cache", "full", "no_cache")
    made = plan(shape, ServingOptions(page_size=16), ranks, BUDGET, pp_rank=1)
    assert isinstance(made.pool, MHALeafRequest)
    assert (made.pool.start_layer, made.pool.end_layer) == (2, 3)


def test_rows_with_gaps_between_and_nothing_beside_them_are_refused() -> None:
    apart = replace(shape_of("nemotron_h"), layers=("linear", "full", "no_cache", "full"))
    ranks = ParallelLayout(pp_size=2, pp_layers=(1, 3))
    with pytest.raises(PlanError, match=r"pp_size=2: of a stage's layers \[1, 3\] keep rows"):
        plan(apart, ServingOptions(), ranks, BUDGET)


def test_stages_of_one_kind_each_have_the_tokens_of_both_pools() -> None:
    # Three layers of windows, then a full one: 64 heads of 128 and 128, two bytes.
    shape = replace(shape_of("cohere2"), layers=shape_of("cohere2").layers[:4])
    assert shape.layers == ("sliding", "sliding", "sliding", "full")
    ranks, layer = ParallelLayout(pp_size=2, pp_layers=(3, 1)), 64 * 256 * 2
    options = ServingOptions(page_size=16)
    windows, rows = (plan(shape, options, ranks, BUDGET, pp_rank=rank) for rank in range(2))
    # Of a full token's windows 0.8 are kept, in three layers.
    full = (40 * GIB - 16 * 3 * layer) * 10 // (8 * 3 * layer) // 16 * 16
    assert windows.tokens == rows.tokens
    assert (rows.tokens.full, rows.tokens.window) == (full, full * 8 // 10 // 16 * 16)
    assert rows.allocator.size == windows.allocator.size == full
    for stage in (windows, rows):
        assert isinstance(stage.pool, SWAPoolRequest)
        sizes = (stage.pool.full.size, stage.pool.window.size)
        assert sizes == (full, rows.tokens.window)
    assert windows.allocated_bytes <= 40 * GIB
    assert (windows.bytes_per_token, rows.bytes_per_token) == (-(-8 * 3 * layer // 10), layer)
    # The other way round the full layers are the dearest.
    other = plan(shape, options, replace(ranks, pp_layers=(1, 3)), BUDGET)
    assert other.tokens.full == (40 * GIB - 48 * layer) * 10 // (26 * layer) // 16 * 16


def test_windows_that_running_requests_decide_are_the_same_on_every_stage() -> None:
    shape = replace(shape_of("cohere2"), layers=shape_of("cohere2").layers[:4])
    ranks = ParallelLayout(pp_size=2, pp_layers=(3, 1))
    options = ServingOptions(page_size=16, prefix_cache=False, max_running_requests=4)
    windows, rows = (plan(shape, options, ranks, BUDGET, pp_rank=rank) for rank in range(2))
    assert windows.tokens == rows.tokens
    # Four windows of 4096, 128 steps, a page begun and one to decode into; two chunks and a page.
    assert rows.tokens.window == 4 * (4096 + 128 + 16 + 16) + 2 * 8192 + 16
    assert rows.tokens.full == (40 * GIB // (64 * 512) - 16) // 16 * 16
    few = plan(shape, replace(options, max_total_tokens=20_000), ranks, BUDGET)
    assert (few.tokens.full, few.tokens.window) == (20_000, 20_000)
    with pytest.raises(PlanError, match="the window pool for that many requests leaves nothing"):
        plan(shape, replace(options, max_running_requests=400), ranks, BUDGET)


def test_a_draft_beside_states_alone_has_its_share() -> None:
    spec = SpeculativeOptions(kind="eagle", draft_tokens=2)
    options = ServingOptions(page_size=16, speculative=spec)
    draft = replace(shape_of("llama"), layers=("full",))
    made = plan(shape_of("bamba"), options, ParallelLayout(), BUDGET, draft_shape=draft)
    # A row of 32 heads of 128 and 128, two bytes, a token: of what the states leave.
    assert made.state is not None
    left = 40 * GIB - bytes_of_state(made.state)
    assert (made.tokens.full, made.tokens.window) == ((left - 16 * 16384) // 16384 // 16 * 16, 0)
    assert made.tokens.full > 1_000_000
    assert isinstance(made.pool, HybridPoolRequest)
    assert made.pool.full.size == made.allocator.size == made.tokens.full


def test_a_cap_widens_no_window() -> None:
    few: dict[str, Any] = {
        "prefix_cache": False,
        "max_running_requests": 1,
        "chunked_prefill_size": 2048,
    }
    free, capped = (
        planned("gpt_oss", page_size=16, max_total_tokens=cap, **few) for cap in (None, 65536)
    )
    assert capped.tokens.full == 65536
    assert capped.tokens.window == free.tokens.window < 65536 * 0.8
