"""A plugin that is half made is told in one line what it lacks, and what to do."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

from kvproto.configurator import CPU, BuildError, build, find_platform, platforms
from kvproto.conformance import BadInput
from kvproto.conformance.factory import build as asked_of
from kvproto.conformance.platform_named import load_platform
from kvproto.protocols import AllocatorRequest, LeafRequest, MHALeafRequest
from kvproto.reference import CORE, build_reference_leaf
from kvproto.reference.build_allocator import build_reference_allocator
from kvproto.reference.paged_allocator import PageAllocator
from tests.configurator.test_build import small


class Whole:
    """Everything of the reference's."""

    name = "half"
    capabilities: Any = CPU

    def build_leaf(self, request: LeafRequest, /) -> Any:
        return build_reference_leaf(request)

    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        return build_reference_allocator(request)


class Wider(Whole):
    def build_leaf(self, request: LeafRequest, layout: str, /) -> Any:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return build_reference_leaf(request)


class WithoutAllocators:
    name = "half"
    capabilities = CPU

    def build_leaf(self, request: LeafRequest, /) -> Any:
        return build_reference_leaf(request)


class Told(Whole):
    capabilities = {"device_type": "cpu"}  # noqa: RUF012


def nothing() -> None:
    pass


def the_class() -> type:
    return Whole


def needs_a_device(device: str) -> Whole:
    return Whole()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("nothing", "gave None: return a Platform, or Declined(reason)"),
        ("the_class", "gave the class Whole, which is no Platform: return an instance of it"),
        ("Wider", "gave Wider, which is no Platform: build_leaf: needs an extra argument 'layout'"),
        ("WithoutAllocators", "which is no Platform: build_allocator: missing"),
        ("Told", "gave Told, whose capabilities are of type dict, not PlatformCapabilities"),
        ("needs_a_device", "failed: TypeError: needs_a_device() missing 1 required positional"),
        ("nowhere", f"failed: AttributeError: module '{__name__}' has no attribute 'nowhere'"),
    ],
)
def test_an_entry_point_that_gives_no_platform(
    monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    point = EntryPoint("half", f"{__name__}:{value}", platforms.GROUP)
    monkeypatch.setattr(platforms, "entry_points", lambda group: [point])
    with pytest.raises(BuildError) as error:
        find_platform("half")
    assert str(error.value).startswith(f"entry point 'half = {__name__}:{value}' of the group")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["nothing", "Told"])
def test_the_kit_says_the_same(value: str) -> None:
    with pytest.raises(BadInput, match=f"^{__name__}:{value} gave (None|Told)"):
        load_platform(f"{__name__}:{value}")


class GivesNoLeaf(Whole):
    def build_leaf(self, request: LeafRequest, /) -> Any:
        return None


class GivesNoAllocator(Whole):
    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        return None


class WithoutDecode(PageAllocator):
    alloc_decode: Any = None


class DecodesNothing(Whole):
    def build_allocator(self, request: AllocatorRequest, /) -> Any:
        made = build_reference_allocator(request)
        if type(made) is PageAllocator:
            made.__class__ = WithoutDecode
        return made


@pytest.mark.parametrize(
    ("platform", "said"),
    [
        (
            GivesNoLeaf(),
            "MHALeafRequest on platform 'half': build_leaf gave None: return a leaf, or "
            "Declined(reason)",
        ),
        (
            GivesNoAllocator(),
            "paged allocator of platform 'half': build_allocator gave None: return an allocator, "
            "or Declined(reason)",
        ),
        (
            DecodesNothing(),
            "paged allocator of platform 'half' needs PagedAllocator, WithoutDecode is not one: "
            "alloc_decode: set to None, declared as not supported",
        ),
    ],
)
def test_a_part_that_is_none_ends_the_build(platform: Whole, said: str) -> None:
    with pytest.raises(BuildError) as error:
        build(small("llama"), platform, CORE)
    assert str(error.value) == said


def test_a_factory_that_returns_none_is_told_what_to_return() -> None:
    asked = MHALeafRequest(
        size=16,
        page_size=16,
        dtype=torch.bfloat16,
        head_num=1,
        head_dim=16,
        layer_num=1,
        device="cpu",
    )
    with pytest.raises(BadInput, match=r"returned None for MHALeafRequest\(.*; return a pool, or"):
        asked_of(lambda _request: None, asked)
