"""Fixtures of the tests of reference pools and accounts."""

from __future__ import annotations

import pytest

from kvproto.reference import slot_allocator


@pytest.fixture(params=["host", "device"])
def host_or_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allocators as in host memory, then as on a device, both on the CPU."""
    monkeypatch.setattr(slot_allocator, "has_numpy", request.param == "host")
