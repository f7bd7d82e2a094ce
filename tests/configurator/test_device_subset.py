"""Plans in which the device has rows for some of the tokens."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from kvproto.configurator import (
    BuildError,
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
    DeclaresRegions,
    Declined,
    DSALeafRequest,
    HiSparseAllocatorRequest,
    LeafRequest,
    SparseIndexLeafRequest,
    bytes_of_pool,
    bytes_per_token,
    supports,
)
from kvproto.reference import (
    CORE,
    DeviceSubsetAllocator,
    PageAllocator,
    SubsetDSALeaf,
    SubsetSparseLeaf,
)
from tests.configurator.test_build import NOWHERE, ON_CPU, Vendor, described
from tests.configurator.test_plan import GIB, planned


def subset(name: str, **options: Any) -> PoolPlan:
    asked: dict[str, Any] = {"host_to_device_ratio": 2, "prefix_cache": False, "page_size": 64}
    return planned(name, **(asked | options))


def test_index_keys_are_those_of_every_id() -> None:
    made = subset("deepseek_v32", host_to_device_ratio=5)
    # 61 layers of 576 two-byte numbers; a key of 128 bytes and a scale for each of five ids.
    cost = 61 * (576 * 2 + 5 * 132)
    assert made.bytes_per_token == cost
    assert made.tokens.full == (40 * GIB - 64 * cost) // cost // 64 * 64
    assert isinstance(made.pool, DSALeafRequest)
    assert made.pool.index_slots == 5 * made.tokens.full + 64
    ids = 61 * 132 * made.pool.index_slots
    assert bytes_of_pool(made.pool) == 61 * 1152 * (made.tokens.full + 64) + ids
    assert made.allocator == HiSparseAllocatorRequest(
        size=made.tokens.full, page_size=64, device="cpu", host_to_device_ratio=5
    )
    assert isinstance(made.allocator, HiSparseAllocatorRequest)
    assert made.allocator.size_logical == 5 * made.tokens.full
    assert plan_from_json(plan_to_json(made)) == made


def test_dense_layers_have_a_row_for_every_id() -> None:
    config = example_config("minimax_m3_vl")
    config["text_config"]["sparse_attention_config"] = {
        "sparse_attention_freq": [0] * 3 + [1] * 57,
        "sparse_disable_index_value": [1] * 40 + [0] * 20,
        "sparse_index_dim": 128,
    }
    shape = ModelShape.from_hf_config(config)
    options = ServingOptions(page_size=128, host_to_device_ratio=4, prefix_cache=False)
    made = plan(shape, options, ParallelLayout(tp_size=4), MemoryBudget.of_caches(40 * GIB))
    assert isinstance(made.pool, SparseIndexLeafRequest)
    # K and V of one head: 57 sparse layers by slot; 3 dense ones, 57 keys and 20 values by id.
    row, index = 2 * 128 * 2, 128 * 2
    assert made.bytes_per_token == 57 * row + 4 * (3 * row + (57 + 20) * index)
    slots = made.tokens.full + 128
    ids = 4 * made.tokens.full + 128
    assert bytes_of_pool(made.pool) == 57 * row * slots + (3 * row + 77 * index) * ids
    assert made.allocated_bytes == bytes_of_pool(made.pool) <= 40 * GIB
    pools = build(made, NOWHERE, CORE)
    assert isinstance(pools.pool, SubsetSparseLeaf)
    assert described(pools.pool.buffer_regions()) == made.allocated_bytes
    assert pools.views is not None
    assert pools.views.hisparse is not None


def test_a_draft_has_rows_for_every_id() -> None:
    spec = SpeculativeOptions(kind="eagle", draft_tokens=2, draft_layers=1)
    made = subset("deepseek_v32", speculative=spec, host_to_device_ratio=3)
    assert isinstance(made.draft, DSALeafRequest)
    assert (made.draft.size, made.draft.page_size) == (3 * made.tokens.full, 64)
    assert made.draft.host_to_device_ratio == 1
    one = 576 * 2 + 132
    assert made.bytes_per_token == 61 * (576 * 2 + 3 * 132) + 3 * one
    assert bytes_per_token(made.draft) == one


def test_without_a_ratio_everything_is_as_before() -> None:
    made = subset("deepseek_v32", host_to_device_ratio=None)
    assert isinstance(made.pool, DSALeafRequest)
    assert "host_to_device_ratio" not in made.pool.keywords()
    assert replace(made.pool, host_to_device_ratio=2).keywords()["host_to_device_ratio"] == 2


@pytest.mark.parametrize(
    ("name", "ranks", "options", "said"),
    [
        ("llama", {}, {}, "layers without index keys read every row of a request; leave it out"),
        ("deepseek_v3", {}, {}, "layers without index keys read every row"),
        ("glm5_next", {}, {}, "the rows are beside recurrent state"),
        ("deepseek_v32", {}, {"prefix_cache": True}, "a prefix cache lends rows that may not be"),
        (
            "deepseek_v32",
            {},
            {"speculative": SpeculativeOptions(kind="eagle", draft_tokens=4, topk=2)},
            "drafts branch 2 ways, and rows are fetched for one; give topk=1",
        ),
        ("deepseek_v32", {}, {"host_to_device_ratio": 1}, "give at least 2, or leave it out"),
    ],
)
def test_tokens_that_cannot_be_elsewhere(
    name: str, ranks: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as error:
        subset(name, **options)
    assert error.value.option == "host_to_device_ratio"
    assert said in str(error.value)


def test_what_is_built_finds_the_slots_of_ids() -> None:
    made = build(subset("deepseek_v32", max_total_tokens=128), ON_CPU, CORE)
    assert isinstance(made.pool, SubsetDSALeaf)
    assert isinstance(made.allocator, DeviceSubsetAllocator)
    assert made.views is not None
    view: object = made.views.hisparse
    assert view is made.pool
    assert made.views.indexer is not None
    assert (made.views.movable, made.views.transfer, made.views.host_copy) == (None, None, None)
    assert made.allocator.get_kvcache() is made.pool
    table = made.pool.full_to_hisparse_device_index_mapping
    assert table is made.allocator.full_to_hisparse_device_index_mapping
    ids = made.allocator.alloc(64)
    assert ids is not None
    assert made.pool.translate_loc_to_hisparse_device(ids).min() >= 64
    assert made.allocator.size == 2 * 128


@pytest.mark.parametrize("name", ["deepseek_v32", "glm_moe_dsa"])
def test_models_are_built_without_a_byte(name: str) -> None:
    made = build(subset(name, kv_cache_dtype="fp8_e4m3"), NOWHERE, CORE)
    assert supports(made.pool, DeclaresRegions)
    assert described(made.pool.buffer_regions()) == made.plan.allocated_bytes


class Paged(Vendor):
    """A platform with paged allocators of its own, and leaves that know no ids."""

    def build_leaf(self, request: LeafRequest, /) -> Any:
        assert isinstance(request, DSALeafRequest)
        return super().build_leaf(replace(request, host_to_device_ratio=1))

    def build_allocator(self, request: Any, /) -> Any:
        return OwnPages(request.size, request.page_size, torch.int64, request.device, None, False)


class OwnPages(PageAllocator):
    """A vendor's own allocator of pages."""


def test_a_leaf_that_knows_no_ids_is_refused() -> None:
    with pytest.raises(BuildError, match="DSALeafRequest on platform 'acme' needs HiSparse"):
        build(subset("deepseek_v32", max_total_tokens=128), Paged(), CORE)


def test_both_sides_are_the_platforms_own_paged_allocators() -> None:
    class Sparse(Paged):
        def build_leaf(self, request: LeafRequest, /) -> Any:
            return ON_CPU.build_leaf(request)

    made: Any = build(subset("deepseek_v32", max_total_tokens=128), Sparse(), CORE)
    assert type(made.allocator.logical_attn_allocator) is OwnPages
    assert type(made.allocator.hisparse_attn_allocator) is OwnPages
    assert made.notes == ()

    class Without(Sparse):
        def build_allocator(self, request: Any, /) -> Any:
            return Declined("no pages")

    notes = build(subset("deepseek_v32", max_total_tokens=128), Without(), CORE).notes
    assert [note.split(":")[0] for note in notes] == [
        "paged allocator of 256 slots by the core",
        "paged allocator of 128 slots by the core",
    ]
    own = subset("deepseek_v32", max_total_tokens=128, allocator_fallback="none")
    with pytest.raises(BuildError, match="the ids of hierarchical sparse attention: no pages"):
        build(own, Without(), CORE)


@settings(deadline=None)
@given(
    st.sampled_from(["deepseek_v32", "glm_moe_dsa"]),
    st.integers(1, 160),
    st.integers(1, 160),
    st.fixed_dictionaries(
        {
            "host_to_device_ratio": st.integers(2, 9),
            "page_size": st.sampled_from([16, 64, 256]),
            "kv_cache_dtype": st.sampled_from(["auto", "fp8_e4m3"]),
            "max_total_tokens": st.one_of(st.none(), st.integers(1, 1 << 20)),
            "role": st.sampled_from(["unified", "prefill", "decode"]),
        }
    ),
)
def test_subsets_of_any_options_stay_within_their_memory(
    name: str, a: int, b: int, options: dict[str, Any]
) -> None:
    less, more = sorted((a, b))
    try:
        small = subset(name, memory=less * GIB, **options)
    except PlanError:
        reject()
    large = subset(name, memory=more * GIB, **options)
    assert small.tokens.full <= large.tokens.full
    for made in (small, large):
        assert made.pool is not None
        assert bytes_of_pool(made.pool) == made.allocated_bytes <= made.cache_bytes
        assert made.tokens.full % options["page_size"] == 0
        assert plan_from_json(plan_to_json(made)) == made
