"""Our plans count what sglang's sizing code counts, but for the reserved pages that it forgets."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest

from kvproto.configurator import (
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    StateOptions,
    example_config,
    plan,
)
from kvproto.configurator.pool_plan import PlannedPool
from kvproto.protocols import (
    HybridPoolRequest,
    LeafRequest,
    NoOpLeafRequest,
    SWAPoolRequest,
    SWARingPoolRequest,
    bytes_per_token,
)
from tests.interop import report
from tests.interop.sizing_cases import CASES, CONTEXT_LEN, SizingCase, as_published


@pytest.fixture(scope="module")
def theirs(interop_python: str) -> dict[str, Any]:
    return report.answers_of(interop_python, "tests.interop.sizing")


def ours(case: SizingCase, more: int = 0) -> PoolPlan:
    config = as_published(case.model, example_config(case.model))
    shape = ModelShape.from_hf_config(config)
    options = ServingOptions(
        page_size=case.page_size,
        kv_cache_dtype=case.kv_dtype,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        dsa_rows=case.dsa_rows,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        prefix_cache=case.prefix_cache,
        context_len=CONTEXT_LEN,
        window_pools=case.window_pools,
        swa_full_tokens_ratio=case.window_ratio,
        max_running_requests=case.max_running_requests,
        state=StateOptions(full_memory_ratio=case.state_ratio),
        speculative=_speculative(case),
    )
    ranks, stage = ParallelLayout(tp_size=case.tp, dcp_size=case.dcp), 0
    if case.layers is not None:
        start, end = case.layers
        rest = len(shape.layers) - end
        ranks, stage = ParallelLayout(pp_size=3, pp_layers=(start, end - start, rest)), 1
    budget = MemoryBudget.of_caches(case.budget + more)
    draft = None
    if case.draft is not None:
        draft = ModelShape.from_hf_config(example_config(case.draft))
    return plan(shape, options, ranks, budget, pp_rank=stage, draft_shape=draft)


def _speculative(case: SizingCase) -> SpeculativeOptions | None:
    if case.draft_kind is None:
        return None
    return SpeculativeOptions(
        kind=case.draft_kind,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        draft_tokens=case.draft_tokens,
        steps=case.draft_steps,
        draft_layers=case.draft_layers,
        draft_kv_cache_dtype=case.draft_kv_dtype,  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    )


def reserved(made: PoolPlan) -> int:
    """Bytes of the pages that nobody is given."""
    return sum(
        leaf.page_size * bytes_per_token(leaf)
        for pool in (made.pool, made.draft)
        for leaf in _leaves(pool)
    )


def _leaves(pool: PlannedPool | None) -> tuple[LeafRequest, ...]:
    match pool:
        case None:
            return ()
        case SWAPoolRequest(full=full, window=window):
            return full, window
        case HybridPoolRequest(full=full):
            return (full,)
        case SWARingPoolRequest() | NoOpLeafRequest():
            raise AssertionError(f"no case asks for {pool}")
        case leaf:
            return (leaf,)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sizes(theirs: dict[str, Any], case: SizingCase) -> None:
    found, made = theirs[case.name], ours(case)
    assert made.bytes_per_token == ceil(found["cell"]) + case.uncounted
    assert (None if made.state is None else made.state.size) == found["state_slots"]
    if case.uncounted:
        assert made.tokens.full < found["tokens"]
    elif made.state is None:
        made = ours(case, reserved(made))
        assert (made.tokens.full, made.tokens.window) == (
            found["tokens"],
            found["window_tokens"] or 0,
        )
    else:
        # The state's share would grow with the budget; a page is all that may be missing.
        assert found["tokens"] - made.tokens.full in {0, case.page_size}
    assert made.concurrency.max_running_requests == found["requests"]
