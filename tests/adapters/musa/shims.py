"""Vendor software that stores fp8 wrong, as some did: put between an operation and the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["Shim", "drops_the_conversion", "lacks_the_conversion", "reads_another_fp8"]

E4M3 = torch.float8_e4m3fn


class Shim(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Does `instead` for conversions between fp8 and other types."""

    def __init__(self, instead: Callable[[Tensor, torch.dtype], Tensor | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above
        self.instead = instead

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        given = kwargs or {}
        if func is torch.ops.aten._to_copy.default and E4M3 in (args[0].dtype, given.get("dtype")):
            made = self.instead(args[0], given.get("dtype", args[0].dtype))
            if made is not None:
                return made
        return func(*args, **given)


def drops_the_conversion(given: Tensor, dtype: torch.dtype) -> Tensor | None:
    """The conversion to fp8 was compiled out: what is stored is zeros, and no error."""
    return torch.zeros_like(given, dtype=dtype) if dtype == E4M3 != given.dtype else None


def lacks_the_conversion(given: Tensor, dtype: torch.dtype) -> Tensor | None:
    """There is no such operator."""
    if dtype == E4M3 != given.dtype:
        raise RuntimeError("\"copy_kernel\" not implemented for 'Float8_e4m3fn'\nsecond line")
    return None


def reads_another_fp8(given: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Bytes are right, and read as numbers of e4m3fnuz."""
    if given.dtype == E4M3 != dtype:
        return given.view(torch.uint8).view(torch.float8_e4m3fnuz).to(dtype)
    return None
