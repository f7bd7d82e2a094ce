"""Pipeline stages with layers of one kind, in models whose layers are of both."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.configurator import (
    MemoryBudget,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    build,
    plan,
)
from kvproto.protocols import (
    SWAAllocatorRequest,
    SWAComposite,
    SWAPoolRequest,
    supports,
)
from kvproto.reference import CORE
from tests.configurator.test_build import ON_CPU
from tests.configurator.test_plan import GIB, shape_of

SIDE = 8 * (64 + 64) * 2
"""Bytes of a token in a layer of gpt_oss, whose even layers are windowed."""


def stages(name: str, counts: tuple[int, ...], **options: Any) -> list[PoolPlan]:
    ranks = ParallelLayout(pp_size=len(counts), pp_layers=counts)
    asked = ServingOptions(page_size=64, **options)
    budget = MemoryBudget.of_caches(GIB)
    return [plan(shape_of(name), asked, ranks, budget, pp_rank=rank) for rank in range(len(counts))]


@pytest.mark.parametrize("name", ["gpt_oss", "llama4_text", "gemma3_text"])
def test_all_stages_have_the_same_slots_of_both_kinds(name: str) -> None:
    layers = len(shape_of(name).layers)
    made = stages(name, (1,) * layers)
    assert len({each.tokens for each in made}) == 1
    assert made[0].tokens.full > made[0].tokens.window > 0
    for each in made:
        assert each.allocated_bytes <= each.cache_bytes
        assert isinstance(each.allocator, SWAAllocatorRequest)
        assert isinstance(each.pool, SWAPoolRequest)
        assert {each.pool.full.layer_num, each.pool.window.layer_num} == {0, 1}
        assert each.pool.full.size == each.tokens.full
        assert each.pool.window.size == each.tokens.window


def test_a_stage_of_windows_is_counted_in_full_tokens() -> None:
    first, rest = stages("gpt_oss", (1, 35), swa_full_tokens_ratio=0.5)
    # Half a window row for a full token, on a stage that keeps no other.
    assert first.bytes_per_token == SIDE // 2
    assert rest.bytes_per_token == 18 * SIDE + 17 * SIDE // 2
    left = GIB - 64 * (18 + 17) * SIDE
    assert rest.tokens.full == left * 2 // ((2 * 18 + 17) * SIDE) // 64 * 64
    assert first.tokens == rest.tokens


def test_a_cap_counts_alike_on_every_stage() -> None:
    made = stages("gpt_oss", (1, 1, 34), max_total_tokens=6400, swa_full_tokens_ratio=0.5)
    assert {(each.tokens.full, each.tokens.window) for each in made} == {(6400, 3200)}


def test_windows_of_running_requests_fit_on_a_stage_of_windows() -> None:
    few = {"prefix_cache": False, "max_running_requests": 64, "chunked_prefill_size": 2048}
    made = stages("gpt_oss", (1, 1, 34), **few)
    # Each request: the window, 128 steps since an eviction, a page begun, a page to decode into.
    wanted = -(-(64 * (128 + 128 + 64 + 64) + 2 * 2048 + 64) // 64) * 64
    assert {each.tokens.window for each in made} == {wanted}
    assert len({each.tokens.full for each in made}) == 1
    with pytest.raises(PlanError, match="the window pool for that many requests leaves nothing"):
        stages("gpt_oss", (1, 35), **(few | {"max_running_requests": 2000}))


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_stages_of_one_kind_are_built(rank: int) -> None:
    few = {"max_total_tokens": 1024, "swa_full_tokens_ratio": 1.0}
    made = build(stages("gpt_oss", (1, 1, 34), **few)[rank], ON_CPU, CORE)
    assert supports(made.pool, SWAComposite)
    slots = made.allocator.alloc(64)
    assert slots is not None
    peers = made.pool.translate_loc_from_full_to_swa(slots)
    assert (peers > 0).all()
    assert made.pool.swa_kv_pool.size == 1024
