"""Plans without rows, of device subsets and with rings, beside what sglang decides of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    example_config,
    plan,
)
from kvproto.protocols import SWARingPoolRequest
from tests.configurator.test_build import CPU
from tests.interop import report
from tests.interop.sizing_cases import CASES, CONTEXT_LEN, GIB, SizingCase, as_published
from tests.interop.sizing_path_cases import (
    RINGS,
    SHARDS,
    SUBSETS,
    RingCase,
    ShardCase,
    SubsetCase,
)


@pytest.fixture(scope="module")
def theirs(interop_python: str) -> dict[str, Any]:
    return report.answers_of(interop_python, "tests.interop.sizing_paths")


OFFERS = replace(CPU, subsystems=frozenset({"page_shards"}))


def shape_of(model: str) -> ModelShape:
    return ModelShape.from_hf_config(as_published(model, example_config(model)))


# What sglang calls the pools of a family, and what a model of it keeps, in our words.
FAMILIES = {
    None: "",
    "DSA/MLA KV pool": "latent rows and index keys",
    "MLA KV pool": "latent rows",
    "SWA KV pool": "windows",
    "hybrid linear/Mamba KV pool": "recurrent state",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_same_families_need_their_rows(theirs: dict[str, Any], case: SizingCase) -> None:
    family = theirs["refused"][case.name]
    kept = FAMILIES[family]
    options = ServingOptions(
        kv_cache_dtype=case.kv_dtype,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        rows="none",
        prefix_cache=False,
        chunked_prefill_size=None,
        window_pools=case.window_pools,
        context_len=CONTEXT_LEN,
    )
    shape, ranks = shape_of(case.model), ParallelLayout(tp_size=case.tp)
    if case.model == "minimax_m3_vl":
        # Let pass here, and refused once the pool is built and is another class.
        kept = "index keys"
    if case.kv_dtype == "mxfp8":
        # Refused by another check, of the arguments.
        kept = "block scales"
    if shape.state_layer_ids and shape.is_latent:
        # Two reasons; each side names its own first.
        kept = "latent rows"
    if not kept:
        assert plan(shape, options, ranks, MemoryBudget.of_caches(1)).allocated_bytes == 0
        return
    with pytest.raises(PlanError, match=f"a model with {kept}"):
        plan(shape, options, ranks, MemoryBudget.of_caches(case.budget))


def planned(case: SubsetCase, more: int = 0) -> PoolPlan:
    speculative = None
    if case.draft_layers:
        speculative = SpeculativeOptions(
            kind="eagle", draft_tokens=2, draft_layers=case.draft_layers
        )
    options = ServingOptions(
        page_size=64,
        kv_cache_dtype=case.kv_dtype,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        prefix_cache=False,
        context_len=CONTEXT_LEN,
        host_to_device_ratio=case.ratio,
        speculative=speculative,
    )
    budget = MemoryBudget.of_caches(40 * GIB + more)
    return plan(shape_of(case.model), options, ParallelLayout(tp_size=case.tp), budget)


@pytest.mark.parametrize("case", SUBSETS, ids=lambda case: case.name)
def test_device_subsets_cost_the_same(theirs: dict[str, Any], case: SubsetCase) -> None:
    found = theirs["subsets"][case.name]
    made = planned(case)
    assert made.bytes_per_token == found["cell"]
    assert planned(case, 64 * made.bytes_per_token).tokens.full == found["tokens"]


@pytest.mark.parametrize("case", SHARDS, ids=lambda case: case.name)
def test_a_ranks_pages_and_scratch_cost_the_same(theirs: dict[str, Any], case: ShardCase) -> None:
    options = ServingOptions(
        page_size=64,
        kv_cache_dtype=case.kv_dtype,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        context_len=CONTEXT_LEN,
        kv_sharding="pages",
        role="prefill",
    )
    found, ranks = theirs["shards"][case.name], ParallelLayout(tp_size=case.tp)
    budget = MemoryBudget.of_caches(40 * GIB + 64 * found["cell"])
    made = plan(shape_of(case.model), options, ranks, budget, platform=OFFERS)
    assert made.bytes_per_token == found["cell"]
    assert made.tokens.full == found["tokens"]
    rows = found["cell"] * (made.tokens.full + 64)
    assert made.allocated_bytes - rows == found["scratch"]


@pytest.mark.parametrize("case", RINGS, ids=lambda case: case.name)
def test_rings_are_as_long_and_as_many(theirs: dict[str, Any], case: RingCase) -> None:
    speculative = None
    if case.draft_tokens is not None:
        speculative = SpeculativeOptions(kind="ngram", draft_tokens=case.draft_tokens)
    options = ServingOptions(
        page_size=case.page_size,
        window_storage="ring",
        role="decode" if case.to_come else "unified",
        pre_alloc_size=case.to_come,
        max_running_requests=case.requests,
        speculative=speculative,
    )
    shape = replace(shape_of("gpt_oss"), window=case.window)
    made = plan(shape, options, ParallelLayout(), MemoryBudget.of_caches(40 * GIB))
    assert isinstance(made.pool, SWARingPoolRequest)
    found = theirs["rings"][case.name]
    ring = made.pool.swa_req_ring_size
    # Ours are whole pages, as the accounts of both sides are.
    assert ring == -(-found["ring"] // case.page_size) * case.page_size
    assert made.pool.num_req_slots == found["rows"]
    assert made.tokens.window == found["size_swa"]
