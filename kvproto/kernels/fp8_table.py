"""Quantise 16-bit numbers in host memory by looking each up among all there are."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .fp8 import to_fp8
from .on_host import has_bytes, has_numpy, is_watched, np
from .row_items import Memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["fp8_bytes", "has_fp8_table"]

_AT_A_TIME = 1 << 14
"""Numbers whose indices still fit into a cache: numpy makes 8 bytes of each."""


def has_fp8_table(values: Tensor) -> bool:
    """Whether `values`, of any strides, can be looked up once they are dense."""
    if values.dtype not in (torch.bfloat16, torch.float16) or not has_numpy or is_watched():
        return False
    return has_bytes(values)


def fp8_bytes(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The bytes of `to_fp8(values, dtype)`, same shape, fresh; `values` are dense."""
    memory: Any = Memory.from_address(values.data_ptr())
    table, codes = _table(values.dtype, dtype), np.ndarray(values.shape, np.uint16, memory)
    if codes.size <= _AT_A_TIME:
        found = table.take(codes, mode="clip")
        return torch.from_numpy(found)  # pyright: ignore[reportUnknownMemberType]
    stored = torch.empty(values.shape, dtype=torch.uint8, device="cpu")
    flat, into = codes.reshape(-1), stored.numpy().reshape(-1)
    for start in range(0, flat.size, _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        table.take(flat[part], out=into[part], mode="clip")
    return stored


@cache
def _table(source: torch.dtype, dtype: torch.dtype) -> NDArray[np.uint8]:
    """What each pattern of 16 bits becomes."""
    patterns = torch.arange(1 << 16, dtype=torch.int32, device="cpu").to(torch.uint16)
    return to_fp8(patterns.view(source), dtype).view(torch.uint8).numpy()
