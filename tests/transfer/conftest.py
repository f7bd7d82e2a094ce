"""Engines that a test leaves open are closed after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kvproto.transfer.engines import local_engine


@pytest.fixture(autouse=True)
def closed_engines() -> Iterator[None]:
    """A local engine is a socket, which pytest asks to be closed."""
    yield
    for engine in list(local_engine._HERE.values()):
        engine.close()
