"""Plans in which each request has a ring for its window."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kvproto.configurator import (
    BuildError,
    MemoryBudget,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    StateOptions,
    build,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.protocols import (
    AllocatorRequest,
    DeclaresRegions,
    Declined,
    MHALeafRequest,
    RequestPoolRequest,
    SlotAllocator,
    SWAPoolRequest,
    SWARingAllocatorRequest,
    SWARingPoolRequest,
    bytes_of_pool,
    supports,
)
from kvproto.reference import CORE, SWARingPool
from tests.configurator.test_build import NOWHERE, ON_CPU, ForeignAllocator, Vendor, described
from tests.configurator.test_plan import GIB, planned, shape_of

WINDOWED = (
    "cohere2",
    "exaone4",
    "gemma2",
    "gemma3_text",
    "gpt_oss",
    "mimo_v2_flash",
    "mistral",
    "olmo3",
)


def ringed(name: str, **options: Any) -> PoolPlan:
    asked: dict[str, Any] = {"window_storage": "ring", "max_running_requests": 64, "page_size": 16}
    return planned(name, **(asked | options))


def rings_of(made: PoolPlan) -> SWARingPoolRequest:
    assert isinstance(made.pool, SWARingPoolRequest)
    return made.pool


def test_rings_come_before_tokens() -> None:
    made = ringed("gpt_oss")
    rings = rings_of(made)
    # 18 layers on either side, 8 heads of 64 and 64, two bytes; a window of 128 for 64 requests
    # and for the padding row.
    side = 18 * 8 * 128 * 2
    assert (rings.swa_req_ring_size, rings.num_req_slots) == (128, 65)
    assert rings.pair.window.size + 16 == 65 * 128
    assert bytes_of_pool(rings.pair.window) == 65 * 128 * side
    assert made.bytes_per_token == side
    assert made.tokens.full == (40 * GIB - 65 * 128 * side - 16 * side) // side // 16 * 16
    assert made.tokens.window == 64 * 128
    assert bytes_of_pool(rings) == made.allocated_bytes <= 40 * GIB
    assert isinstance(made.request_pool, RequestPoolRequest)
    assert made.request_pool.size == 64


def test_a_ring_holds_what_a_verification_writes_ahead() -> None:
    spec = SpeculativeOptions(kind="ngram", draft_tokens=4)
    # 128 + 4 - 1 tokens, in pages of 16.
    assert rings_of(ringed("gpt_oss", speculative=spec)).swa_req_ring_size == 144
    assert rings_of(ringed("gpt_oss", speculative=spec, page_size=1)).swa_req_ring_size == 131


def test_requests_to_come_have_rings_too() -> None:
    made = ringed("gpt_oss", role="decode", pre_alloc_size=10)
    assert rings_of(made).num_req_slots == 64 + 10 + 1
    assert made.tokens.window == (64 + 10) * 128
    grouped = planned(
        "gpt_oss",
        ParallelLayout(tp_size=8, dp_attention_size=4),
        window_storage="ring",
        max_running_requests=64,
    )
    assert rings_of(grouped).num_req_slots == 64 // 4 + 1


def test_only_rows_of_the_table_have_rings() -> None:
    # Tokens allow for fewer requests than were asked for: a slot to read and one to write each.
    made = ringed("gpt_oss", max_total_tokens=32)
    assert (made.concurrency.max_running_requests, made.concurrency.limit) == (16, "tokens")
    assert rings_of(made).num_req_slots == 16 + 1


def test_the_allocator_lends_full_slots_and_the_table_rings() -> None:
    made = ringed("gpt_oss", role="decode", pre_alloc_size=10)
    assert isinstance(made.allocator, SWARingAllocatorRequest)
    assert made.allocator.full == AllocatorRequest(
        kind="paged", size=made.tokens.full, page_size=16, device="cpu", need_sort=True
    )
    assert made.allocator.rows == made.request_pool
    assert made.allocator.swa_req_ring_size == 128


def test_a_model_of_windows_alone_has_slots_that_cost_nothing() -> None:
    made = ringed("mistral", max_running_requests=8)
    rings = rings_of(made)
    # The window of 4096 in 32 layers, 8 heads of 128 and 128: 131072 bytes a slot.
    assert made.allocated_bytes == (8 + 1) * 4096 * 131072
    assert made.bytes_per_token == 0
    # Enough full slots for the longest context of each request: they only count.
    assert made.tokens.full == made.allocator.size == 8 * 131072
    full = rings.pair.full
    assert isinstance(full, MHALeafRequest)
    assert (full.layer_num, full.size, full.fallback) == (0, made.tokens.full, "core")
    assert ringed("mistral", max_running_requests=8, max_total_tokens=4096).tokens.full == 4096


def test_a_stage_without_windows_has_no_rings() -> None:
    # Every fourth layer of this family is full.
    ranks = ParallelLayout(pp_size=3, pp_layers=(3, 1, 36))
    options = ServingOptions(window_storage="ring", max_running_requests=2, page_size=16)
    budget = MemoryBudget.of_caches(40 * GIB)
    made = [plan(shape_of("cohere2"), options, ranks, budget, pp_rank=rank) for rank in range(3)]
    assert [type(stage.pool) for stage in made] == [
        SWARingPoolRequest,
        MHALeafRequest,
        SWARingPoolRequest,
    ]
    assert len({stage.tokens for stage in made}) == len({stage.allocator for stage in made}) == 1


def test_unsplit_windows_have_no_rings() -> None:
    whole = planned("gpt_oss", window_pools=False, page_size=16)
    assert planned("gpt_oss", window_pools=False, page_size=16, window_storage="ring") == whole
    paged = ringed("gpt_oss", window_storage="paged")
    assert isinstance(paged.pool, SWAPoolRequest)


@pytest.mark.parametrize(
    ("options", "option", "said"),
    [
        (
            {"max_running_requests": None},
            "max_running_requests",
            "each request has a ring of window slots, whose bytes come before any token's; state",
        ),
        (
            {"max_running_requests": 10_000},
            "max_running_requests",
            "their rings of 128 window slots take 47190638592 of 42949672960 bytes and leave no",
        ),
    ],
)
def test_rings_that_cannot_be(options: dict[str, Any], option: str, said: str) -> None:
    with pytest.raises(PlanError) as error:
        ringed("gpt_oss", **options)
    assert error.value.option == option
    assert said in str(error.value)


def test_rings_of_windows_alone_have_to_fit() -> None:
    with pytest.raises(PlanError, match="their rings of 4096 window slots take 43486543872 of"):
        ringed("mistral", max_running_requests=80)


@pytest.mark.parametrize("name", WINDOWED)
def test_every_windowed_model_is_built_without_a_byte(name: str) -> None:
    made = build(ringed(name, max_running_requests=3), NOWHERE, CORE)
    assert made.pool is not None
    assert made.views is not None
    ring: object = made.views.ring
    assert ring is made.pool
    assert made.views.swa is None
    assert isinstance(made.pool, SWARingPool)
    leaves = made.pool.full_kv_pool, made.pool.swa_kv_pool
    regions = [leaf.buffer_regions() for leaf in leaves if supports(leaf, DeclaresRegions)]
    assert sum(map(described, regions)) == made.plan.allocated_bytes


def test_what_is_built_works_at_once() -> None:
    few = ringed("gpt_oss", max_running_requests=2, max_total_tokens=256, model_dtype="float16")
    made = build(few, ON_CPU, CORE)
    assert isinstance(made.pool, SWARingPool)
    assert (made.pool.num_req_slots, made.pool.size_swa) == (3, 2 * 128)
    allocator: Any = made.allocator
    assert (allocator.size_full, allocator.size_swa) == (256, 2 * 128)
    assert allocator.req_to_token_pool is made.request_pool
    assert allocator.get_kvcache() is made.pool
    slots = made.pool.window_slots(torch.tensor([1, 2]), torch.tensor([130, 5]))
    assert slots.tolist() == [128 + 130 % 128, 2 * 128 + 5]


class WithAccounts:
    """The reference's leaves, and allocators of its own for pages of one token."""

    name, capabilities = "acme", ON_CPU.capabilities
    build_leaf = staticmethod(ON_CPU.build_leaf)

    def build_allocator(self, request: AllocatorRequest, /) -> SlotAllocator | Declined:
        return Vendor().build_allocator(request)


def test_a_platforms_allocator_lends_the_full_slots() -> None:
    few: dict[str, Any] = {"max_running_requests": 2, "max_total_tokens": 64}
    made: Any = build(ringed("gpt_oss", page_size=1, **few), WithAccounts(), CORE)
    assert type(made.allocator.full_attn_allocator) is ForeignAllocator
    assert made.notes == ()
    assert len(build(ringed("gpt_oss", **few), WithAccounts(), CORE).notes) == 1
    with pytest.raises(BuildError, match="the full side beside rings: no pages here"):
        build(ringed("gpt_oss", allocator_fallback="none", **few), WithAccounts(), CORE)


def test_leaves_whose_rings_no_peer_could_be_sent_are_refused() -> None:
    with pytest.raises(BuildError) as error:
        build(ringed("gpt_oss", max_running_requests=2, max_total_tokens=64), Vendor(), CORE)
    assert str(error.value).startswith(
        "no SWARingPoolRequest over leaves of platform 'acme': ForeignLeaf does not export its"
    )


@settings(deadline=None)
@given(
    st.sampled_from(WINDOWED),
    st.integers(1, 160),
    st.integers(1, 160),
    st.fixed_dictionaries(
        {
            "page_size": st.sampled_from([1, 16, 256]),
            "max_running_requests": st.integers(1, 2000),
            "max_total_tokens": st.one_of(st.none(), st.integers(1, 1 << 20)),
            "role": st.sampled_from(["unified", "prefill", "decode"]),
            "pre_alloc_size": st.integers(0, 64),
            "state": st.just(StateOptions()),
            "speculative": st.one_of(
                st.none(),
                st.builds(
                    SpeculativeOptions, kind=st.just("ngram"), draft_tokens=st.integers(1, 9)
                ),
            ),
        }
    ),
)
def test_rings_of_any_options_stay_within_their_memory(
    name: str, a: int, b: int, options: dict[str, Any]
) -> None:
    less, more = sorted((a, b))
    try:
        small = ringed(name, memory=less * GIB, **options)
    except PlanError:
        reject()
    large = ringed(name, memory=more * GIB, **options)
    assert small.tokens.full <= large.tokens.full
    for made in (small, large):
        rings = rings_of(made)
        assert bytes_of_pool(rings) == made.allocated_bytes <= made.cache_bytes
        assert rings.swa_req_ring_size % options["page_size"] == 0
        assert plan_from_json(plan_to_json(made)) == made
