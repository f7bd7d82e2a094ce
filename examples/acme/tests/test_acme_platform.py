"""Acme's platform, as its own CI finds it: every model, planned and built over Acme's parts."""

from __future__ import annotations

from typing import ClassVar

from acme_kv.pages import AcmePages
from acme_kv.pool import AcmePool

from kvproto.configurator import find_platform
from kvproto.conformance.suite import PlatformConformance
from kvproto.protocols import AllocatorRequest, PagedAllocator, Platform


class TestAcmePlatform(PlatformConformance):
    cannot: ClassVar = {"HostCopyable": "requests are recomputed after a retraction"}

    def make_platform(self) -> Platform:
        return find_platform("acme")


def test_the_parts_are_acmes_own() -> None:
    assert AcmePool.__mro__[1:] == AcmePages.__mro__[1:] == (object,)
    asked = AllocatorRequest(kind="paged", size=64, page_size=16, device="cpu")
    assert isinstance(find_platform("acme").build_allocator(asked), PagedAllocator)
