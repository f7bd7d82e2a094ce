"""The platform's leaves and models, held to the conformance kit's laws over host memory."""

from __future__ import annotations

import pytest
import torch

from kvproto.conformance import check_platform
from tests.adapters.rocm.leaves import FNUZ, PLATFORMS, on_each

RAW = ["dsa-raw-fnuz-page1", "dsa-raw-fnuz-preshuffled-page16"]
LEAVES = {
    "both": [
        "alloc-page64",
        "mha-bf16-page16-stage",
        "vectorized-5d-bf16-page16-stage",
        "mla-bf16-page64-stage",
    ],
    "e4m3fnuz": ["vectorized-5d-fp8-e4m3fnuz-page64", "mla-fp8-e4m3fnuz-page16", *RAW],
    "e4m3fn": ["mha-fp8-e4m3fn-page16", "mla-fp8-e4m3fn-page64", "dsa-preshuffled-page32"],
}
MODELS = [
    "gpt_oss-page16-vectorized",
    "qwen3_moe-page64-fp8",
    "qwen3_next-page16-vectorized",
    "deepseek_v32-page64-fp8",
    "deepseek_v32-page16-stage2",
    "glm5_next_weighed-page256-one-pool",
    "minimax_m3_vl-page64-fp8",
    "deepseek_v3-page64-fp8",
]


@on_each
def test_every_law_of_leaves_is_kept(dtype: torch.dtype) -> None:
    platform = PLATFORMS[dtype]
    specs = [*LEAVES["both"], *LEAVES[platform.capabilities.fp8_variant]]
    report = check_platform(PLATFORMS[dtype], specs=specs)
    assert report.ok, report.results
    assert report.declined == ()
    assert {name for subject in report.subjects for name in subject.specs} >= set(specs)


@on_each
def test_rows_of_the_other_variant_are_declined(dtype: torch.dtype) -> None:
    other = "e4m3fn" if dtype == FNUZ else "e4m3fnuz"
    own = LEAVES["both"][1:2]
    report = check_platform(PLATFORMS[dtype], specs=[*own, *LEAVES[other]], laws=["fp8"])
    assert dict(report.declined).keys() == set(LEAVES[other])
    assert all(f"float8_{other}" in reason for _, reason in report.declined)


@pytest.mark.parametrize("dtype", [FNUZ])
def test_models_are_planned_and_built(dtype: torch.dtype) -> None:
    report = check_platform(PLATFORMS[dtype], specs=MODELS)
    assert report.ok, report.results
    assert report.declined == ()
