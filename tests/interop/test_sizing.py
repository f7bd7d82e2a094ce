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
    StateOptions,
    example_config,
    plan,
)
from kvproto.protocols import SWAPoolRequest, bytes_per_token
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
        prefix_cache=case.prefix_cache,
        context_len=CONTEXT_LEN,
        window_pools=case.window_pools,
        swa_full_tokens_ratio=case.window_ratio,
        max_running_requests=case.max_running_requests,
        state=StateOptions(full_memory_ratio=case.state_ratio),
    )
    ranks, stage = ParallelLayout(tp_size=case.tp), 0
    if case.layers is not None:
        start, end = case.layers
        rest = len(shape.layers) - end
        ranks, stage = ParallelLayout(pp_size=3, pp_layers=(start, end - start, rest)), 1
    budget = MemoryBudget.of_caches(case.budget + more)
    return plan(shape, options, ranks, budget, pp_rank=stage)


def reserved(made: PoolPlan, page_size: int) -> int:
    """Bytes of the pages that nobody is given."""
    match made.pool:
        case SWAPoolRequest(full=full, window=window):
            return page_size * (bytes_per_token(full) + bytes_per_token(window))
        case _:
            return page_size * made.bytes_per_token


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sizes(theirs: dict[str, Any], case: SizingCase) -> None:
    found, made = theirs[case.name], ours(case)
    assert made.bytes_per_token == ceil(found["cell"])
    assert (None if made.state is None else made.state.size) == found["state_slots"]
    if made.state is None:
        made = ours(case, reserved(made, case.page_size))
        assert (made.tokens.full, made.tokens.window) == (
            found["tokens"],
            found["window_tokens"] or 0,
        )
    else:
        # The state's share would grow with the budget; a page is all that may be missing.
        assert found["tokens"] - made.tokens.full in {0, case.page_size}
    assert made.concurrency.max_running_requests == found["requests"]
