"""The interpreter computes as compiled kernels do, and serves the CPU where a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvproto.kernels import on_host
from tests.kernels.conftest import interpreted_on_cpu
from tests.kernels.triton.interpreted.mended import mended


@pytest.fixture(autouse=True)
def as_compiled() -> Iterator[None]:
    with mended():
        yield


@pytest.fixture
def without_host_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations do on the CPU what they would do on a device without Triton."""
    monkeypatch.setattr(on_host, "has_numpy", False)


@pytest.fixture
def served_on_cpu() -> Iterator[None]:
    """Operations launch their kernels."""
    with interpreted_on_cpu():
        yield
