"""Pools far larger than memory: zeros that take none until they are written."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["LazyZeros"]

_CREATORS: set[Callable[..., Any]] = {
    torch.zeros,
    torch.empty,
    torch.zeros_like,
    torch.empty_like,
    torch.Tensor.new_zeros,
    torch.Tensor.new_empty,
}
_LARGE = 1 << 24
_NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0)


class LazyZeros(TorchFunctionMode):
    """While active, torch's large CPU tensors of zeros are memory that is mapped on first use."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func not in _CREATORS or torch.device(named.get("device") or "cpu").type != "cpu":
            return func(*args, **named)
        shape: Tensor = func(*args, **(named | {"device": "meta", "pin_memory": False}))
        return _mapped(shape) if shape.nbytes >= _LARGE else func(*args, **named)


def _mapped(shape: Tensor) -> Tensor:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    memory = mmap.mmap(-1, shape.nbytes, flags=flags)
    return torch.frombuffer(memory, dtype=torch.uint8).view(shape.dtype).view(shape.shape)
