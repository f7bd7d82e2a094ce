"""Latent rows and index keys are planned as the platform's kernels read them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvproto.adapters.npu.facts import NPU
from kvproto.adapters.npu.platform import NPUPlatform
from kvproto.configurator import (
    CPU,
    MemoryBudget,
    ModelShape,
    ParallelLayout,
    PoolPlan,
    ServingOptions,
    build,
    example_config,
    plan,
    plan_from_json,
    plan_to_json,
)
from kvproto.protocols import (
    DSALeafRequest,
    IndexKeyRows,
    MLALeafRequest,
    PlatformCapabilities,
    ScaledIndexKeyRows,
    supports,
)
from kvproto.reference import CORE

GIB = 1 << 30
IN_HOST_MEMORY = NPUPlatform(capabilities=replace(NPU, device_type="cpu"))


def planned(model: str, platform: PlatformCapabilities = NPU, **options: Any) -> PoolPlan:
    shape = ModelShape.from_hf_config(example_config(model))
    asked: dict[str, Any] = {"max_total_tokens": 256, "max_running_requests": 2} | options
    budget = MemoryBudget.of_caches(40 * GIB)
    return plan(shape, ServingOptions(**asked), ParallelLayout(), budget, platform=platform)


def test_latent_rows_are_split_where_kernels_read_them_so() -> None:
    asked, elsewhere = planned("deepseek_v3").pool, planned("deepseek_v3", CPU).pool
    assert isinstance(asked, MLALeafRequest)
    assert isinstance(elsewhere, MLALeafRequest)
    assert (asked.layout, asked.page_size) == ("latent_split", 128)
    assert elsewhere.layout == "latent_rows"


@pytest.mark.parametrize(
    ("platform", "options", "bytes_per_token"),
    [
        (NPU, {}, 61 * ((512 + 64) * 2 + 128 * 2)),
        (NPU, {"model_dtype": "float16"}, 61 * ((512 + 64) * 2 + 128 * 2)),
        (NPU, {"kv_cache_dtype": "fp8_e4m3"}, 61 * (656 + 128 + 4)),
        (CPU, {}, 61 * ((512 + 64) * 2 + 128 + 4)),
        (replace(CPU, index_keys="plain"), {}, 61 * ((512 + 64) * 2 + 128 * 2)),
    ],
)
def test_index_keys_beside_16_bits_are_those_that_kernels_read(
    platform: PlatformCapabilities, options: dict[str, Any], bytes_per_token: int
) -> None:
    made = planned("deepseek_v32", platform, **options)
    assert isinstance(made.pool, DSALeafRequest)
    assert made.allocated_bytes == bytes_per_token * (256 + made.pool.page_size)
    assert plan_from_json(plan_to_json(made)) == made


@pytest.mark.parametrize("dtype", ["auto", "fp8_e4m3"])
def test_what_is_planned_is_built_and_its_index_keys_are_bound(dtype: str) -> None:
    built = build(planned("deepseek_v32", kv_cache_dtype=dtype), IN_HOST_MEMORY, CORE)
    assert built.views is not None
    rows = built.views.index_rows
    assert rows is not None
    assert built.views.indexer is None
    assert supports(rows, IndexKeyRows)
    assert supports(rows, ScaledIndexKeyRows) is (dtype == "fp8_e4m3")
    assert len(rows.indexer_layer_ids) == 61
