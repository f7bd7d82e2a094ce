"""Leaves of Ascend devices on the kit's bench, over host memory."""

from __future__ import annotations

import pytest

from kvproto.adapters.npu.platform import build_on_cpu
from kvproto.conformance import check_pool
from kvproto.conformance.specs import SPECS
from kvproto.protocols import (
    DSALeafRequest,
    MHALeafRequest,
    MLALeafRequest,
    SparseIndexLeafRequest,
)

LEAVES = MHALeafRequest | MLALeafRequest | DSALeafRequest | SparseIndexLeafRequest
REASONS = (
    "rows of Ascend devices are one of torch.bfloat16",
    "fp8 of Ascend devices is float8_e4m3fn",
    "no MHA leaf of an Ascend device with layout='hnd'",
    "no MHA leaf of an Ascend device with layout='vectorized_5d'",
    "no MHA leaf of an Ascend device with layout='page_envelope'",
    "and quant_scheme='mxfp8'",
    "and quant_scheme='fp4_mx16'",
    "and quant_scheme='nvfp4'",
    "no MLA leaf of an Ascend device with layout='latent_rows'",
    "no DSA leaf of an Ascend device with layout='latent_rows'",
    "on an Ascend device",
)


def test_calls_across_a_boundary_are_those_of_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVPROTO_DEBUG", "1")
    starts = "mla-split-bf16-page1", "dsa-split-bf16", "sparse-bf16", "paged-nhd-bf16"
    asked = [spec.name for spec in SPECS if spec.name.startswith(starts)]
    report = check_pool(build_on_cpu, specs=asked, laws=["write", "mla", "sparse", "index-rows"])
    assert report.ok


def test_every_law_is_kept_and_what_is_declined_has_a_reason() -> None:
    asked = [spec.name for spec in SPECS if isinstance(spec.request, LEAVES)]
    report = check_pool(build_on_cpu, specs=asked)
    assert not report.failures
    assert report.conformant
    assert {s.name for s in report.subjects} >= {
        "NPUMHALeaf",
        "NPUMLALeaf",
        "NPUDSALeaf",
        "NPUScaledDSALeaf",
        "NPUSparseIndexLeaf",
    }
    unexplained = [line for line in report.declined if not any(r in line[1] for r in REASONS)]
    assert not unexplained
