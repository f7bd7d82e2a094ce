"""The conformance kit on the other vendor's device: its platform keeps the laws there."""

from __future__ import annotations

import pytest

from kvproto.adapters.musa.platform import MusaPlatform, musa
from kvproto.conformance import check_platform

SPECS = ["mha-bf16-page16-stage", "mla-bf16-page64-stage", "dsa-packed-page64", "alloc-page64"]


@pytest.mark.filterwarnings("ignore:triton")  # interpreted or absent: torch operations do its work
def test_the_platform_keeps_the_laws_on_its_device() -> None:
    platform = musa()
    assert isinstance(platform, MusaPlatform)

    report = check_platform(platform, specs=SPECS, device="musa:0")

    assert not report.failures, [(r.spec, r.law, r.detail) for r in report.failures]
    assert {spec for subject in report.subjects for spec in subject.specs} == {*SPECS}
