"""What torch wants under `torch.<device>` of the emulated device: it is there, and never busy."""

from __future__ import annotations

from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["EmulatedRuntime"]


class EmulatedRuntime(ModuleType):
    """The module `torch.npu` or `torch.musa` of an emulated device, over `torch.accelerator`.

    What is left out raises `AttributeError`: memory statistics, graphs and properties of a chip are
    hardware's, and nothing here knows them.
    """

    Event = torch.Event
    Stream = torch.Stream

    def __init__(self, device_type: str) -> None:
        super().__init__(f"torch.{device_type}", f"The emulated {device_type} devices.")
        self.device_type = device_type

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _lazy_init(self) -> None: ...

    def device_count(self) -> int:
        return torch._C._accelerator_hooks_device_count()

    def current_device(self) -> int:
        return torch.accelerator.current_device_index()

    def set_device(self, device: int | str | torch.device) -> None:
        torch.accelerator.set_device_index(self._index(device))

    @contextmanager
    def device(self, device: int | str | torch.device) -> Generator[None]:
        before = self.current_device()
        self.set_device(device)
        try:
            yield
        finally:
            self.set_device(before)

    def synchronize(self, device: int | str | torch.device | None = None) -> None: ...

    def empty_cache(self) -> None: ...

    def current_stream(self, device: int | str | torch.device | None = None) -> torch.Stream:
        return torch.accelerator.current_stream(None if device is None else self._index(device))

    @contextmanager
    def stream(self, stream: torch.Stream | None) -> Generator[None]:
        yield

    def manual_seed_all(self, seed: int) -> None:
        """Random numbers come from the CPU's generator, which torch seeds itself."""

    def manual_seed(self, seed: int) -> None:
        """Random numbers come from the CPU's generator, which torch seeds itself."""

    def _is_in_bad_fork(self) -> bool:
        return False

    def _index(self, device: int | str | torch.device) -> int:
        named = torch.device(self.device_type, device) if isinstance(device, int) else device
        parsed = torch.device(named)
        return parsed.index if ":" in str(parsed) else self.current_device()
