"""Which operations go to Triton kernels; none is launched here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch

from kvproto.kernels import (
    MINIMUM_TRITON,
    follow_platform,
    on_host,
    store_rows,
    triton_devices,
    twin_fallbacks,
)
from kvproto.protocols import AllocatorRequest, PlatformCapabilities
from kvproto.reference.platforms import ReferencePlatform
from tests.kernels.conftest import Watching

served = triton_devices.served_by_triton


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is installed is asked again, and devices are what they are at first."""
    monkeypatch.setattr(triton_devices, "_wanted", {"cuda"})
    triton_devices._lacking.cache_clear()
    yield
    triton_devices._lacking.cache_clear()


def test_the_cpu_is_served_where_a_platform_says_so() -> None:
    tensor = torch.empty(1)
    assert not served(tensor)
    follow_platform("cpu", True)
    assert served(tensor)
    follow_platform("cpu", False)
    assert not served(tensor)


def test_what_watches_operations_sees_those_of_torch() -> None:
    follow_platform("cpu", True)
    with Watching():  # type: ignore[no-untyped-call]  # torch has no types here
        assert not served(torch.empty(1))
    assert not served(torch.empty(1).as_subclass(Kind))


class Kind(torch.Tensor):
    """Another kind of tensor."""


def test_a_platform_without_triton_takes_its_device_out() -> None:
    facts = PlatformCapabilities(
        device_type="cuda", supports_triton=False, supports_graph_capture=True, fp8_variant="e4m3fn"
    )
    platform = ReferencePlatform("cuda without triton", facts)
    assert "cuda" in triton_devices._wanted
    platform.build_allocator(AllocatorRequest(kind="token", size=4, page_size=1, device="cpu"))
    assert "cuda" not in triton_devices._wanted


@pytest.mark.parametrize(
    ("installed", "said"),
    [(None, "triton is not installed"), ("3.7.0", "triton 3.7.0 is installed")],
)
def test_without_triton_the_twin_works_and_one_warning_says_so(
    installed: str | None, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_host, "has_numpy", False)
    monkeypatch.setattr(triton_devices, "_installed", lambda: installed)
    follow_platform("cpu", True)
    before, target = twin_fallbacks(), torch.zeros(4, 2)
    with pytest.warns(RuntimeWarning, match=said) as warned:
        store_rows(target, torch.tensor([2]), torch.ones(1, 2))
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store_rows(target, torch.tensor([3]), torch.ones(1, 2))
    assert target.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]
    assert twin_fallbacks() == before + 2


def test_the_installed_triton_is_new_enough() -> None:
    assert triton_devices._version("3.8.1+rocm") == MINIMUM_TRITON
    assert triton_devices._lacking() is None
