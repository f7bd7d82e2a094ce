"""A deployment that asks for no layout has rows where attention finds the page size."""

from __future__ import annotations

from typing import Any

import pytest

from kvproto.adapters.musa.platform import on_cpu
from kvproto.configurator import MemoryBudget, ParallelLayout, ServingOptions, build, plan
from kvproto.conformance.deployment import Watched
from kvproto.protocols import PlatformCapabilities
from kvproto.reference import CORE
from tests.configurator.test_plan import shape_of


def pool_of(model: str, **asked: Any) -> Any:
    platform = on_cpu()
    options = ServingOptions(
        max_total_tokens=1024, context_len=128, max_running_requests=2, **asked
    )
    budget, facts = MemoryBudget.of_caches(1 << 30), platform.capabilities
    made = plan(shape_of(model), options, ParallelLayout(tp_size=8), budget, platform=facts)
    return build(made, Watched(platform, "cpu"), CORE).pool


@pytest.mark.parametrize("page", [None, 16])
@pytest.mark.parametrize("model", ["llama", "gpt_oss"])
def test_the_page_size_is_the_second_dimension(model: str, page: int | None) -> None:
    pool = pool_of(model, page_size=page)
    for layer_id in (0, 1):
        for door in (pool.get_key_buffer, pool.get_value_buffer):
            assert door(layer_id).shape[1] == pool.page_size == (page or 64)


def test_what_is_asked_for_goes_before_it() -> None:
    assert pool_of("llama", layout="nhd").get_key_buffer(0).shape[0] == 64 + 1024


def test_elsewhere_rows_lie_one_after_another() -> None:
    facts = PlatformCapabilities(
        device_type="x", supports_triton=False, supports_graph_capture=False, fp8_variant="e4m3fn"
    )
    assert ServingOptions().on(facts).rows_of_heads == "nhd"
    with pytest.raises(ValueError, match="layout=None: that of a platform"):
        _ = ServingOptions().rows_of_heads
