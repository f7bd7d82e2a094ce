"""A layout of latent rows that a deployment asks for, where a platform reads several."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvproto.adapters.npu.facts import NPU
from kvproto.adapters.npu.mla import NPUMLALeaf
from kvproto.configurator import (
    MemoryBudget,
    PlanError,
    PoolPlan,
    ServingOptions,
    SpeculativeOptions,
    build,
    plan,
)
from kvproto.protocols import LatentLayout, MLALeafRequest, PlatformCapabilities
from kvproto.reference import CORE
from tests.configurator.test_build import CPU
from tests.configurator.test_latent_layout import IN_HOST_MEMORY
from tests.configurator.test_plan import GIB, ONE, shape_of

NZ: LatentLayout = "latent_split_nz"


def planned(
    name: str, asked: LatentLayout | None, platform: PlatformCapabilities = NPU, **options: Any
) -> PoolPlan:
    few: dict[str, Any] = {"latent_layout": asked, "max_total_tokens": 256} | options
    budget = MemoryBudget.of_caches(40 * GIB)
    return plan(shape_of(name), ServingOptions(**few), ONE, budget, platform=platform)


@pytest.mark.parametrize(
    ("platform", "asked", "layout"),
    [
        (NPU, None, "latent_split"),
        (NPU, "latent_split", "latent_split"),
        (NPU, NZ, NZ),
        (CPU, None, "latent_rows"),
        (CPU, "latent_rows", "latent_rows"),
    ],
)
def test_rows_lie_as_the_platform_reads_them_or_as_asked(
    platform: PlatformCapabilities, asked: LatentLayout | None, layout: LatentLayout
) -> None:
    made = planned("deepseek_v3", asked, platform)
    assert isinstance(made.pool, MLALeafRequest)
    assert made.pool.layout == layout
    plain = planned("deepseek_v3", None, platform)
    assert isinstance(plain.pool, MLALeafRequest)
    assert made.pool == replace(plain.pool, layout=layout)
    assert made.bytes_per_token == plain.bytes_per_token


def test_a_draft_lies_as_its_model() -> None:
    drafting = SpeculativeOptions(kind="eagle", draft_tokens=2)
    made = planned("deepseek_v3", NZ, speculative=drafting)
    assert isinstance(made.draft, MLALeafRequest)
    assert made.draft.layout == NZ


@pytest.mark.parametrize(("dtype", "c0"), [("auto", 16), ("fp8_e4m3", 32)])
def test_nz_planes_are_built_for_a_deployment_that_asks(dtype: str, c0: int) -> None:
    made = planned("deepseek_v3", NZ, kv_cache_dtype=dtype)
    leaf: Any = build(made, IN_HOST_MEMORY, CORE).pool
    assert type(leaf) is NPUMLALeaf
    assert leaf.pool_traits.layout == NZ
    latents, ropes = leaf.get_kv_buffer(0)
    # 256 tokens are two pages, beside the reserved one: in each, blocks of 32 bytes of its tokens.
    assert latents.shape == (3, 512 // c0, 128, c0)
    assert ropes.shape == (3, 64 // c0, 128, c0)


@pytest.mark.parametrize(
    ("name", "platform", "asked", "said"),
    [
        (
            "deepseek_v32",
            NPU,
            NZ,
            "latent_layout='latent_split_nz': beside index keys the platform 'npu' reads them as "
            "'latent_split' alone; give 'latent_split', or leave it out",
        ),
        (
            "deepseek_v3",
            CPU,
            NZ,
            "latent_layout='latent_split_nz': no kernel of the platform 'cpu' reads latent rows "
            "so; give 'latent_rows', or leave it out",
        ),
        ("deepseek_v3", NPU, "latent_rows", "latent_layout='latent_rows': no kernel of the platfo"),
        ("deepseek_v3", NPU, "nz", "latent_layout='nz': it is none of its values; give one of"),
    ],
)
def test_a_layout_that_nobody_reads_is_refused_in_a_line(
    name: str, platform: PlatformCapabilities, asked: Any, said: str
) -> None:
    with pytest.raises(PlanError) as error:
        planned(name, asked, platform)
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)
