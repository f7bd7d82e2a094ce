"""Stages that keep rows of one kind alone: of windows, or of some layers and nothing beside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvproto.configurator import MemoryBudget, ParallelLayout, PlanError, ServingOptions, plan
from kvproto.protocols import MHALeafRequest, SWAAllocatorRequest, SWAPoolRequest, bytes_of_pool
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
