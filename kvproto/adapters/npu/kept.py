"""What rows of a plane may be: asked by a request, which is declined, and by a constructor."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvproto.kernels import FP8_DTYPES
from kvproto.reference.elements import ELEMENT_OF

__all__ = ["check_layout", "check_rows_element", "no_element"]

_FP8 = torch.float8_e4m3fn
_KEPT = [dtype for dtype in ELEMENT_OF if dtype == _FP8 or dtype not in FP8_DTYPES]


def no_element(dtype: torch.dtype) -> str:
    """Why rows of an Ascend device cannot be of that type; "" where they can."""
    if dtype in _KEPT:
        return ""
    if dtype in FP8_DTYPES:
        return f"{dtype}: fp8 of Ascend devices is float8_e4m3fn"
    return f"{dtype}: rows of Ascend devices are one of {', '.join(map(str, _KEPT))}"


def check_rows_element(dtype: torch.dtype) -> None:
    """:raises ValueError: as `no_element` says."""
    if reason := no_element(dtype):
        raise ValueError(f"dtype={reason}")


def check_layout(layout: str, built: Iterable[str]) -> None:
    """:raises ValueError: for a layout that is not among those built."""
    if layout not in (allowed := tuple(built)):
        raise ValueError(f"kv_cache_layout={layout!r}: must be one of {', '.join(allowed)}")
