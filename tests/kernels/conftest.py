"""Fixtures of the tests of kernels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils._python_dispatch import TorchDispatchMode


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


@pytest.fixture(params=["host", "device"], scope="module")
def host_or_device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Kernels as in host memory, then as on a device, both on the CPU."""
    if request.param == "host":
        yield
        return
    with Watching():  # type: ignore[no-untyped-call]  # as above
        yield
