"""Models whose rows stand for several tokens, on a platform that offers a pool of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

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
    CompressedPoolRequest,
    Declined,
    SubsystemPools,
    SubsystemRequest,
    SWAAllocatorRequest,
)
from kvproto.reference import CORE, ReferencePlatform
from tests.configurator.test_build import CPU, ON_CPU
from tests.configurator.test_plan import GIB, ONE, shape_of

OFFERS = replace(CPU, subsystems=frozenset({"compressed_pool"}))


def planned(
    ranks: ParallelLayout = ONE, pp_rank: int = 0, page_size: int = 128, **options: Any
) -> PoolPlan:
    asked: dict[str, Any] = {"max_total_tokens": 12_900, "max_running_requests": 4} | options
    return plan(
        shape_of("deepseek_v4"),
        ServingOptions(page_size=page_size, **asked),
        ranks,
        MemoryBudget.of_caches(40 * GIB),
        platform=OFFERS,
        pp_rank=pp_rank,
    )


def test_the_request_says_what_the_config_says() -> None:
    made = planned(swa_full_tokens_ratio=0.1, kv_cache_dtype="fp8_e4m3")
    request = made.subsystem
    assert isinstance(request, CompressedPoolRequest)
    assert request.subsystems == {"compressed_pool"}
    # Two layers of 128 tokens a row, then 4 and 128 by turns from the fourth on.
    assert request.compression_ratios == (128, 128, *(128, 4) * 20, 128)
    assert (request.head_dim, request.qk_rope_head_dim, request.index_head_dim) == (512, 64, 128)
    assert (request.size, request.size_swa, request.sliding_window) == (12_800, 1280, 128)
    assert request.total_bytes == made.allocated_bytes == 40 * GIB
    assert isinstance(request.allocator, SWAAllocatorRequest)
    assert (request.allocator.size, request.allocator.size_swa) == (12_800, 1280)
    assert request.request_pool == made.request_pool
    assert (made.pool, made.concurrency.max_running_requests) == (None, 4)
    assert plan_from_json(plan_to_json(made)) == made


def test_a_stage_has_its_own_ratios_and_running_requests_their_windows() -> None:
    ranks = ParallelLayout(pp_size=2)
    first, last = (planned(ranks, rank).subsystem for rank in (0, 1))
    assert isinstance(first, CompressedPoolRequest)
    assert isinstance(last, CompressedPoolRequest)
    assert (first.start_layer, last.start_layer) == (0, first.layer_num)
    assert first.layer_num + last.layer_num == 43
    few = planned(prefix_cache=False, max_running_requests=2, chunked_prefill_size=512).subsystem
    assert isinstance(few, CompressedPoolRequest)
    # Each: the window, 128 steps since an eviction, a page begun, a page to decode into.
    wanted = 2 * (128 + 128 + 128 + 128) + 2 * 512 + 128
    assert few.size_swa == -(-wanted // 128) * 128


class Compressed:
    """The members that a pool of compressed rows has, and no byte."""

    def __init__(self, ratios: tuple[int, ...]) -> None:
        self.compression_ratios = ratios
        self.present_ratios = sorted(set(ratios))
        self.layer_mapping = [None] * len(ratios)
        self.uniform_fp8, self.swa_page_size = False, 128

    def get_swa_key_buffer_radix(self, layer_id: int, /) -> Any: ...
    def get_extra_key_buffer(self, layer_id: int, /) -> Any: ...
    def get_extra_key_page_size(self, layer_id: int, /) -> Any: ...
    def get_extra_key_layout(self, layer_id: int, /) -> Any: ...
    def get_attention_compress_states(self, layer_id: int, /) -> Any: ...
    def get_indexer_compress_states(self, layer_id: int, /) -> Any: ...
    def pd_kv_layout(self) -> Any: ...


class Vendor(ReferencePlatform):
    """A platform with a builder of such pools."""

    def __init__(self, **changed: Any) -> None:
        super().__init__("acme", OFFERS)
        object.__setattr__(self, "asked", [])
        object.__setattr__(self, "changed", changed)

    asked: list[SubsystemRequest]
    changed: dict[str, Any]

    def build_subsystem(self, request: SubsystemRequest, /) -> SubsystemPools | Declined:
        self.asked.append(request)
        assert isinstance(request, CompressedPoolRequest)
        if request.total_bytes < GIB:
            return Declined(f"{request.size} tokens need a GiB")
        table = CORE.request_pool(request.request_pool, None)
        parts: dict[str, Any] = {
            "pool": Compressed(request.compression_ratios),
            "allocator": CORE.allocator(
                request.allocator, Registers(), table, self.build_allocator
            ),
            "request_pool": table,
        }
        return SubsystemPools(**(parts | self.changed))

    def _allocator(self, request: CompressedPoolRequest, table: Any) -> Any:
        return CORE.allocator(request.allocator, Registers(), table, self.build_allocator)


class Registers:
    """Takes an allocator's table and keeps nothing."""

    full_to_swa_index_mapping = None

    def register_mapping(self, full_to_swa_index_mapping: Any, /) -> None:
        pass

    def translate_loc_from_full_to_swa(self, kv_indices: Any, /) -> Any:
        return kv_indices


def test_the_platforms_builder_gets_the_request() -> None:
    vendor = Vendor()
    made = planned()
    built = build(made, vendor, CORE)
    (asked,) = vendor.asked
    assert isinstance(asked, CompressedPoolRequest)
    assert str(asked.dtype) == "torch.bfloat16"
    assert built.pool is None
    assert built.compressed is not None
    assert built.compressed.present_ratios == [4, 128]
    assert built.allocator.alloc(128) is not None
    assert built.request_pool.size == 4


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"pool": object()}, "compressed_pool of platform 'acme' needs DSV4Compressed"),
        (
            {"pool": Compressed((4,) * 43)},
            "compressed_pool of platform 'acme': compression_ratios are (4, 4, 4",
        ),
    ],
)
def test_a_pool_of_something_else_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(BuildError) as error:
        build(planned(), Vendor(**changed), CORE)
    assert str(error.value).startswith(said)


def test_platforms_that_cannot() -> None:
    with pytest.raises(BuildError, match="platform 'cpu' offers no compressed_pool"):
        build(planned(), ON_CPU, CORE)
    small = planned().subsystem
    assert isinstance(small, CompressedPoolRequest)
    short = replace(planned(), subsystem=replace(small, total_bytes=4096))
    with pytest.raises(BuildError, match="platform 'acme' declined compressed_pool: 12800 tokens"):
        build(short, Vendor(), CORE)


@pytest.mark.parametrize(
    ("ranks", "options", "said"),
    [
        (
            {},
            {"max_total_tokens": None},
            "max_total_tokens=None: what a token of 'deepseek_v4' takes is its builder's to know; "
            "state how many there are to be, at least one page of 128",
        ),
        (
            {},
            {"page_size": 64},
            "page_size=64: 128 tokens share a row, which must not cross a page; give a multiple of "
            "128",
        ),
        (
            {"tp_size": 2, "dcp_size": 2},
            {},
            "dcp_size=2: a row of several tokens is several ranks'",
        ),
        ({}, {"window_pools": False}, "window_pools=False: every layer keeps its window in pages"),
        ({}, {"window_storage": "ring"}, "window_storage='ring': every layer keeps its window in"),
        (
            {},
            {"speculative": SpeculativeOptions(kind="eagle", draft_tokens=2)},
            "speculative='eagle': the windows of a draft of 'deepseek_v4' lie in its builder's",
        ),
    ],
)
def test_what_such_a_pool_cannot_be_asked_for(
    ranks: dict[str, Any], options: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as error:
        planned(ParallelLayout(**ranks), **options)
    assert str(error.value).startswith(said)


def test_a_row_of_several_tokens_is_in_one_page() -> None:
    request = planned().subsystem
    assert isinstance(request, CompressedPoolRequest)
    with pytest.raises(ValueError, match="page_size=64: the 128 tokens of a row would cross"):
        replace(request, page_size=64)
