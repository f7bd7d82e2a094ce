"""Tensors that the kit makes, where the pools are: on a device, when a run is on one."""

from __future__ import annotations

from collections.abc import Callable
from inspect import currentframe
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["KitTensors"]

_MAKERS: set[Callable[..., Any]] = {
    *(torch.tensor, torch.as_tensor),
    *(torch.empty, torch.zeros, torch.ones, torch.full, torch.arange, torch.linspace, torch.eye),
    *(torch.rand, torch.randn, torch.randint, torch.randperm),
}
_KIT = __name__.rpartition(".")[0] + "."
_POOLS = _KIT + "mutants."


class KitTensors(TorchFunctionMode):
    """While active, tensors that the kit's own code makes without naming a device are on this one.

    What anyone else makes, a pool above all, stays where it was made: a pool that forgets to name
    its device is found out.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        made = func(*args, **(kwargs or {}))
        if func not in _MAKERS or "device" in (kwargs or {}) or not isinstance(made, Tensor):
            return made
        return made.to(self._device) if _called_by_kit(currentframe()) else made


def _called_by_kit(frame: FrameType | None) -> bool:
    """Modes that a law puts around a pool pass the pool's calls on: those are the pool's."""
    while frame is not None and frame.f_code.co_name == "__torch_function__":
        frame = frame.f_back
    module = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return module.startswith(_KIT) and not module.startswith(_POOLS)
