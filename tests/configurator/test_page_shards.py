"""Plans in which ranks keep pages in turn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from kvproto.configurator import (
    BuildError,
    MemoryBudget,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    build,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.protocols import (
    DSALeafRequest,
    LeafRequest,
    MLALeafRequest,
    PageShards,
    ShardedAllocatorRequest,
    bytes_of_pool,
)
from kvproto.reference import CORE, InterleavedAllocator, MLALeaf
from tests.configurator.test_build import CPU, ON_CPU, Vendor
from tests.configurator.test_plan import GIB, shape_of

OFFERS = replace(CPU, subsystems=frozenset({"page_shards"}))
EIGHT = ParallelLayout(tp_size=8)


def sharded(
    name: str, ranks: ParallelLayout = EIGHT, memory: int = 40 * GIB, **options: Any
) -> PoolPlan:
    asked: dict[str, Any] = {"kv_sharding": "pages", "role": "prefill", "page_size": 64}
    serving = ServingOptions(**(asked | options))
    return plan(shape_of(name), serving, ranks, MemoryBudget.of_caches(memory), platform=OFFERS)


def test_a_rank_keeps_one_page_in_eight() -> None:
    made = sharded("deepseek_v3", context_len=10_000)
    # Eight contexts of 10240 tokens, whole spans of 8 pages; a chunk of 8192; a page.
    rows = 8 * 10_240 + 8192 + 64
    assert isinstance(made.pool, MLALeafRequest)
    assert made.pool.page_shards == PageShards(shard_size=8, scratch_rows=rows)
    # Rows of 576 two-byte numbers: of one layer twice in scratch, of 61 in pages.
    scratch, cost = 2 * rows * 1152, 61 * 1152
    assert made.bytes_per_token == cost
    assert made.tokens.full == (40 * GIB - scratch - 64 * cost) // cost // 64 * 64
    assert bytes_of_pool(made.pool) == made.allocated_bytes
    assert made.allocated_bytes == scratch + cost * (made.tokens.full + 64) <= 40 * GIB
    assert made.allocator == ShardedAllocatorRequest(
        size_per_rank=made.tokens.full, page_size=64, shard_size=8, device="cpu", need_sort=True
    )
    assert made.allocator.size == 8 * made.tokens.full
    assert plan_from_json(plan_to_json(made)) == made


def test_scratch_has_an_index_key_for_every_row() -> None:
    made = sharded("deepseek_v32", context_len=4096, kv_cache_dtype="fp8_e4m3")
    assert isinstance(made.pool, DSALeafRequest)
    assert made.pool.page_shards is not None
    rows = made.pool.page_shards.scratch_rows
    assert rows == 8 * 4096 + 8192 + 64
    page = 61 * (656 + 132) * (made.tokens.full + 64)
    assert made.allocated_bytes == page + 2 * rows * (656 + 132)
    without = replace(made.pool, page_shards=None)
    assert made.pool.keywords() == without.keywords()


def test_requests_share_the_pages_of_all_ranks() -> None:
    made = sharded("deepseek_v3", context_len=4096, max_total_tokens=64)
    assert made.concurrency.max_running_requests == 8 * 64 // 2


@pytest.mark.parametrize("memory", [1, 7, 80])
def test_more_memory_never_means_fewer_tokens(memory: int) -> None:
    less, more = (
        sharded("deepseek_v3", memory=gib * GIB, context_len=4096) for gib in (memory, memory + 1)
    )
    assert less.tokens.full <= more.tokens.full
    assert less.allocated_bytes <= memory * GIB


@pytest.mark.parametrize(
    ("name", "ranks", "options", "said"),
    [
        ("llama", {}, {}, "ranks split heads, so that no two of them keep the same rows"),
        ("kimi_linear", {}, {}, "recurrent state is no page of tokens"),
        ("deepseek_v3", {}, {"kv_cache_dtype": "fp4_mx16"}, "block scales are not gathered"),
        ("deepseek_v3", {"tp_size": 1}, {}, "there is one rank, which keeps every page"),
        ("deepseek_v3", {"dp_attention_size": 2}, {}, "groups keep rows of their own"),
        ("deepseek_v3", {"dcp_size": 2}, {}, "dcp_size=2: ranks split the tokens of a page"),
        ("deepseek_v3", {}, {"role": "unified"}, "role='unified': an instance that decodes"),
        ("deepseek_v3", {}, {"page_size": 1}, "page_size=1: a page is what is sent"),
        ("deepseek_v3", {}, {"chunked_prefill_size": None}, "scratch is as long as a chunk"),
        (
            "deepseek_v32",
            {},
            {"host_to_device_ratio": 2, "prefix_cache": False},
            "rows on the host are no rank's pages",
        ),
        (
            "deepseek_v3",
            {},
            {"speculative": SpeculativeOptions(kind="eagle", draft_tokens=2, draft_layers=1)},
            "a draft would have to be in the same ranks' pages",
        ),
    ],
)
def test_pages_that_cannot_be_dealt_out(
    name: str, ranks: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as error:
        sharded(name, replace(EIGHT, **ranks), **options)
    assert (error.value.option, error.value.value) == ("kv_sharding", "pages")
    assert said in str(error.value)


def test_a_platform_that_cannot_says_so_by_name() -> None:
    options = ServingOptions(kv_sharding="pages", role="prefill", page_size=64)
    with pytest.raises(PlanError, match="the platform 'cpu' offers no page_shards; give 'none'"):
        plan(shape_of("deepseek_v3"), options, EIGHT, MemoryBudget.of_caches(40 * GIB))


class Shard:
    """This rank's part."""

    shard_rank, shard_size, page_size = 3, 8, 64


class ShardLeaf(MLALeaf):
    """A vendor's leaf of one rank's pages, as far as it is asked what it can."""

    shard_spec = Shard()
    placement: object = shard_spec

    def begin_shard_extend(
        self,
        req_to_token: torch.Tensor,
        req_pool_indices: torch.Tensor,
        prefix_lens_cpu: list[int],
        seq_lens_cpu: list[int],
        /,
    ) -> None:
        """Gather nothing."""

    def end_shard_extend(self) -> None:
        """Forget nothing."""

    def translate_loc_to_scratch(self, loc: torch.Tensor, /) -> torch.Tensor:
        """Every location at its own row."""
        return loc


def test_a_platform_that_offers_it_builds_the_leaf() -> None:
    class Platform(Vendor):
        capabilities = OFFERS

        def build_leaf(self, request: LeafRequest, /) -> Any:
            assert isinstance(request, MLALeafRequest)
            self.asked.append(request)
            return ShardLeaf(**request.keywords())

    vendor = Platform()
    small = sharded("deepseek_v3", context_len=512, chunked_prefill_size=128, max_total_tokens=128)
    made = build(small, vendor, CORE)
    assert made.views is not None
    view: object = made.views.page_sharded
    assert view is made.pool
    (asked,) = vendor.asked
    assert isinstance(asked, MLALeafRequest)
    assert asked.page_shards == PageShards(shard_size=8, scratch_rows=8 * 512 + 128 + 64)
    assert isinstance(made.allocator, InterleavedAllocator)
    assert made.allocator.size == 8 * 128
    assert made.notes == ()


def test_whole_leaves_are_refused() -> None:
    small = sharded("deepseek_v3", context_len=512, max_total_tokens=128)
    with pytest.raises(BuildError, match="declined: no reference leaf of one of 8 ranks' pages"):
        build(small, ON_CPU, CORE)

    class Whole(Vendor):
        def build_leaf(self, request: LeafRequest, /) -> Any:
            assert isinstance(request, MLALeafRequest)
            return super().build_leaf(replace(request, page_shards=None))

    with pytest.raises(BuildError, match="MLALeafRequest on platform 'acme' needs PageSharded"):
        build(small, Whole(), CORE)
