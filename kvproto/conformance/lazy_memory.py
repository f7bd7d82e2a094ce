"""Pools far larger than memory: zeros that take none until they are written."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["NO_RESERVE", "LazyZeros", "creates_on_cpu", "would_create"]

_CREATORS: set[Callable[..., Any]] = {
    torch.zeros,
    torch.empty,
    torch.zeros_like,
    torch.empty_like,
    torch.Tensor.new_zeros,
    torch.Tensor.new_empty,
}
_LARGE = 1 << 24
NO_RESERVE: int = getattr(mmap, "MAP_NORESERVE", 0)


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
        if not creates_on_cpu(func, args, named):
            return func(*args, **named)
        shape = would_create(func, args, named)
        return _mapped(shape) if shape.nbytes >= _LARGE else func(*args, **named)


def creates_on_cpu(func: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
    """Is it a call that makes a tensor of zeros, or of anything, on the CPU?"""
    like = args[0].device if args and isinstance(args[0], Tensor) else "cpu"
    return func in _CREATORS and torch.device(named.get("device") or like).type == "cpu"


def would_create(func: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> Tensor:
    """What the call would make, without its bytes."""
    made: Tensor = func(*args, **{**named, "device": "meta", "pin_memory": False})
    return made


def _mapped(shape: Tensor) -> Tensor:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
    memory = mmap.mmap(-1, shape.nbytes, flags=flags)
    return torch.frombuffer(memory, dtype=torch.uint8).view(shape.dtype).view(shape.shape)
