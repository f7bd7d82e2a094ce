"""Rotate rows by the normalised Hadamard matrix, which spreads outliers before quantisation."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["hadamard"]


def hadamard(rows: Tensor) -> Tensor:
    """`rows @ H / sqrt(width)` for float32 `[n, width]`, in Sylvester's order; fresh.

    By butterflies, neighbours first: `log2(width)` additions for an element.

    :raises ValueError: for a width that is no power of two.
    """
    width = rows.shape[-1]
    if width < 1 or width & (width - 1):
        raise ValueError(f"rows of width {width} cannot be rotated: must be a power of two")
    stride = 1
    while stride < width:
        halves = rows.view(-1, width // (2 * stride), 2, stride)
        a, b = halves.unbind(2)
        rows = torch.stack((a + b, a - b), dim=2).view(-1, width)
        stride *= 2
    normalised: Tensor = rows * width**-0.5
    return normalised
