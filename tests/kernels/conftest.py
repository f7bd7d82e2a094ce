"""Fixtures of the tests of kernels."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import settings
from torch.utils._python_dispatch import TorchDispatchMode

from kvproto.kernels import follow_platform, on_host


@contextmanager
def interpreted_on_cpu() -> Generator[None]:
    """Operations launch their kernels, where Triton was imported to interpret them."""
    from tests.kernels.triton.interpreted.mended import mended

    with mended(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(on_host, "has_numpy", False)
        follow_platform("cpu", True)
        yield
        follow_platform("cpu", False)


class Watching(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Lets everything through: in any such mode kernels do what a device would be given."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""Whether this run of the tests is the one of `triton/test_interpreted.py`."""

if INTERPRETED:  # which takes milliseconds a program
    settings.register_profile("interpreted", max_examples=25)
    settings.load_profile("interpreted")


@pytest.fixture(params=["triton"] if INTERPRETED else ["host", "device"], scope="module")
def host_or_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Kernels as in host memory, then as on a device, both on the CPU; or interpreted ones."""
    if request.param == "host":
        yield
        return
    if request.param == "triton":
        with interpreted_on_cpu():
            yield
        return
    with Watching():  # type: ignore[no-untyped-call]  # as above
        yield
