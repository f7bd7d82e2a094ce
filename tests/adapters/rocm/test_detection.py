"""Which platform a machine has, told from what its torch says of its devices."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from kvproto.adapters.rocm.facts import GFX942, GFX950
from kvproto.adapters.rocm.platform import RocmPlatform, rocm
from kvproto.configurator import BuildError, find_platform
from kvproto.protocols import Declined, Platform, PlatformCapabilities


def pretend(monkeypatch: pytest.MonkeyPatch, *architectures: str) -> None:
    """A torch for ROCm, with a device of each of these."""
    described = [SimpleNamespace(gcnArchName=name) for name in architectures]
    monkeypatch.setattr(torch.version, "hip", "6.4.43482")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(architectures))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(architectures))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: described[index])


def reason(answer: RocmPlatform | Declined) -> str:
    assert isinstance(answer, Declined)
    return answer.reason


@pytest.mark.parametrize(
    ("named", "facts", "fp8"),
    [
        ("gfx942:sramecc+:xnack-", GFX942, "e4m3fnuz"),
        ("gfx940", GFX942, "e4m3fnuz"),
        ("gfx950:sramecc+:xnack-", GFX950, "e4m3fn"),
    ],
)
def test_the_architecture_decides_the_fp8(
    monkeypatch: pytest.MonkeyPatch, named: str, facts: PlatformCapabilities, fp8: str
) -> None:
    pretend(monkeypatch, named, named)
    platform = rocm()
    assert isinstance(platform, RocmPlatform)
    assert isinstance(platform, Platform)
    assert platform.name == f"rocm-{named.partition(':')[0]}"
    assert (platform.capabilities, platform.capabilities.fp8_variant) == (facts, fp8)
    assert find_platform("rocm") == platform


@pytest.mark.parametrize("named", ["gfx90a:sramecc+:xnack-", "gfx1100", "gfx1201", ""])
def test_another_architecture_is_declined_by_its_name(
    monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    pretend(monkeypatch, named)
    said = f"nothing is known of the fp8 of architecture '{named.partition(':')[0]}'"
    assert said in reason(rocm())


def test_devices_that_differ_are_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "gfx950", "gfx942:sramecc+:xnack-")
    assert "several architectures (gfx942, gfx950)" in reason(rocm())
    assert "HIP_VISIBLE_DEVICES" in reason(rocm())


def test_without_a_device_or_without_rocm_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch)
    assert reason(rocm()) == "torch sees no ROCm device"
    monkeypatch.setattr(torch.version, "hip", None)
    assert reason(rocm()) == "this torch was not built for ROCm"
    with pytest.raises(BuildError, match="platform 'rocm' cannot be used here: this torch was not"):
        find_platform("rocm")
