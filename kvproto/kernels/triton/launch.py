"""A launch of a kernel, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import Tensor

__all__ = ["Launch", "next_power_of_2", "run", "the_device"]


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything a launch needs but a device.

    `arguments` are what the kernel is given when it runs, by name; `constants` what it is compiled
    for, and `by_architecture` what it is compiled for that follows from the target (`sm_90`,
    `gfx942`). `threads` are those of a program.
    """

    kernel: Any
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    constants: Mapping[str, Any]
    device: torch.device
    threads: int = 128
    by_architecture: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)

    def constants_on(self, architecture: str) -> dict[str, Any]:
        """All that it is compiled for there."""
        follow = {name: value(architecture) for name, value in self.by_architecture.items()}
        return {**self.constants, **follow}


def run(launch: Launch) -> None:
    """Launch it on its device's current stream; nothing for an empty grid, nothing waits."""
    if 0 in launch.grid:
        return
    with _on(launch.device):
        launch.kernel[launch.grid](
            **launch.arguments,
            **launch.constants_on(_architecture(launch.device)),
            num_warps=max(1, launch.threads // _warp_size()),
            enable_fp_fusion=False,
        )


def the_device(operation: str, tensors: Iterable[Tensor]) -> torch.device:
    """The one that all are on.

    :raises ValueError: for tensors of several: a kernel takes addresses for its own device's.
    """
    devices = {tensor.device for tensor in tensors}
    if len(devices) != 1:
        found = " and ".join(sorted(map(str, devices)))
        raise ValueError(f"{operation}: tensors are on {found}, must be on one device")
    return devices.pop()


def next_power_of_2(n: int) -> int:
    """The smallest that is not below `n`, itself at least 1."""
    return 1 << (n - 1).bit_length()


def _on(device: torch.device) -> AbstractContextManager[object]:
    """Triton launches on the current device, whichever the tensors are on."""
    if device.type == "cpu":
        return nullcontext()
    module: Any = torch.get_device_module(device)
    guard: AbstractContextManager[object] = module.device(device)
    return guard


@cache
def _architecture(device: torch.device) -> str:
    """Of an interpreter none: what no target does by itself."""
    if device.type != "cuda":
        return ""
    if torch.version.hip:
        return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


@cache
def _warp_size() -> int:
    return 64 if torch.version.hip else 32
