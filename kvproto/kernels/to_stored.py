"""Turn rows as a model computes them into rows as a buffer holds them."""

from __future__ import annotations

import torch
from torch import Tensor

from .fp8 import FP8_DTYPES, Scale, to_fp8
from .fp8_table import fp8_bytes, has_fp8_table

__all__ = ["check_float", "to_stored"]


def check_float(name: str, rows: Tensor) -> None:
    """Check that rows are numbers, as models compute them, and no bytes.

    :raises ValueError: naming the argument and its dtype.
    """
    if not rows.dtype.is_floating_point:
        raise ValueError(
            f"{name} has dtype {rows.dtype}, must be of a float dtype: view bytes of fp8 as what "
            "they are; nothing was written"
        )


def to_stored(rows: Tensor, dtype: torch.dtype, scale: Scale = None) -> Tensor:
    """`rows` in `dtype`; of an fp8 type the bytes, after the policy of `to_fp8`.

    `scale` counts for fp8 only. The input is not modified, but may be what is returned.

    :raises ValueError: for rows of integers, unless `dtype` is theirs: cast by value, bytes of fp8
        would become other numbers.
    """
    if rows.dtype == dtype and dtype not in FP8_DTYPES:
        return rows
    check_float("rows", rows)
    if dtype not in FP8_DTYPES:
        return rows.to(dtype)
    if scale is None and has_fp8_table(rows):
        return fp8_bytes(rows.contiguous(), dtype)
    return to_fp8(rows, dtype, scale).view(torch.uint8)
