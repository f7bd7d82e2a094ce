"""Turn rows as a model computes them into rows as a buffer holds them."""

from __future__ import annotations

import torch
from torch import Tensor

from .fp8 import FP8_DTYPES, Scale, to_fp8
from .fp8_table import fp8_bytes, has_fp8_table

__all__ = ["to_stored"]


def to_stored(rows: Tensor, dtype: torch.dtype, scale: Scale = None) -> Tensor:
    """`rows` in `dtype`; of an fp8 type the bytes, after the policy of `to_fp8`.

    `scale` counts for fp8 only. The input is not modified, but may be what is returned.
    """
    if dtype not in FP8_DTYPES:
        return rows if rows.dtype == dtype else rows.to(dtype)
    if scale is None and has_fp8_table(rows):
        return fp8_bytes(rows.contiguous(), dtype)
    return to_fp8(rows, dtype, scale).view(torch.uint8)
