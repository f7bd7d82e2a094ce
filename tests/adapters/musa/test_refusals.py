"""What is asked for and no kernel of the devices reads is declined, with the reason."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kvproto.adapters.musa.facts import MUSA
from kvproto.adapters.musa.platform import on_cpu
from kvproto.configurator import (
    BuildError,
    MemoryBudget,
    ParallelLayout,
    ServingOptions,
    build,
    plan,
)
from kvproto.conformance import check_platform
from kvproto.protocols import (
    Declined,
    DSALeafRequest,
    LeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)
from kvproto.reference import CORE
from tests.configurator.test_plan import shape_of

COMMON: dict[str, Any] = {"size": 64, "page_size": 64, "layer_num": 1, "device": "cpu"}
HEADS: dict[str, Any] = COMMON | {"head_num": 1, "head_dim": 32}
LATENT: dict[str, Any] = COMMON | {"kv_lora_rank": 32, "qk_rope_head_dim": 16}
PLAIN: dict[str, Any] = {"dtype": torch.bfloat16}
E5M2: dict[str, Any] = {"dtype": torch.float8_e5m2, "quant_scheme": "fp8_scaled"}
FNUZ = torch.float8_e4m3fnuz
TILED: dict[str, Any] = {"index_head_dim": 32, "index_layout": "preshuffled"}
SPARSE: dict[str, Any] = {"idx_head_dim": 32, "dense_layer_ids": (), "sparse_layer_ids": (0,)}

CASES: list[tuple[LeafRequest, str]] = [
    (MHALeafRequest(**HEADS, **E5M2), "dtype=torch.float8_e5m2: of fp8 the devices have torch.flo"),
    (MLALeafRequest(**LATENT, **E5M2), "dtype=torch.float8_e5m2: of fp8 the devices have torch.fl"),
    (
        SparseIndexLeafRequest(**HEADS, **PLAIN, **SPARSE, index_dtype=torch.float8_e5m2),
        "index_dtype=torch.float8_e5m2: of fp8 the devices have torch.float8_e4m3fn alone",
    ),
    (
        DSALeafRequest(**LATENT, **PLAIN, index_head_dim=32, index_dtype=FNUZ),
        "index_dtype=torch.float8_e4m3fnuz: of fp8 the devices have torch.float8_e4m3fn alone",
    ),
    (DSALeafRequest(**LATENT, **PLAIN, **TILED), "index keys are read one after another"),
    (MHALeafRequest(**HEADS, **PLAIN, layout="hnd"), "layout='hnd': attention reads 'nhd' or 'pag"),
    (MHALeafRequest(**HEADS, **PLAIN, layout="vectorized_5d"), "layout='vectorized_5d': attention"),
    (
        MHALeafRequest(**HEADS, dtype=torch.float8_e4m3fn, quant_scheme="mxfp8"),
        "quant_scheme='mxfp8': attention reads 'none', 'fp8_scaled', 'dsa_fp8_packed'",
    ),
]


@pytest.mark.parametrize(("request_", "said"), CASES)
def test_it_is_declined(request_: LeafRequest, said: str) -> None:
    answer = on_cpu().build_leaf(request_)
    assert isinstance(answer, Declined)
    assert said in answer.reason
    assert "musa" not in answer.reason, "whoever asked knows whom"


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float64, torch.int64])
def test_elements_that_no_row_has_are_declined_not_raised(dtype: torch.dtype) -> None:
    for request_ in (
        MHALeafRequest(**HEADS, dtype=dtype),
        MLALeafRequest(**LATENT, dtype=dtype),
        DSALeafRequest(**LATENT, dtype=dtype, index_head_dim=32),
        SparseIndexLeafRequest(**HEADS, **SPARSE, dtype=dtype),
        SparseIndexLeafRequest(**HEADS, **SPARSE, **PLAIN, index_dtype=dtype),
    ):
        answer = on_cpu().build_leaf(request_)
        assert isinstance(answer, Declined), request_
        assert f"dtype={dtype}: rows are torch.bfloat16, torch.float16, torch.f" in answer.reason


def test_a_plan_that_names_the_platform_names_it_once() -> None:
    budget = MemoryBudget.of_caches(1 << 30)
    options = ServingOptions(max_total_tokens=256, context_len=128, layout="hnd")
    made = plan(shape_of("llama"), options, ParallelLayout(), budget, platform=MUSA)
    with pytest.raises(BuildError, match=r"^platform 'musa' declined: layout='hnd': attention"):
        build(made, on_cpu(), CORE)


def test_what_is_built_keeps_every_law() -> None:
    specs = [
        "alloc-page64",
        "mha-fp8-e4m3fn-page16",
        "paged-nhd-bf16-page1",
        "mla-fp8-e4m3fn-page64",
        "dsa-packed-page64",
        "gpt_oss-page64-fp8",
        "deepseek_v32-page64-fp8",
        "minimax_m3_vl-page64-fp8",
    ]
    report = check_platform(on_cpu(), specs=specs)
    assert report.ok, report.results
    assert report.declined == ()
