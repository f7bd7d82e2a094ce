"""Rows by head as callers give them, checked before any is stored."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from kvproto.kernels import FP8_DTYPES
from kvproto.kernels.fp8 import Scale, checked_scale
from kvproto.reference.given_rows import given_rows

from .operators import Rows
from .planes import PlaneLayer

__all__ = ["Given", "checked_rows"]

Given: TypeAlias = tuple[Tensor, Scale, str]
"""Rows, their scale, and what the caller calls them."""


def checked_rows(
    layer: PlaneLayer, given: Given, shape: tuple[int, int, int], dtype: torch.dtype
) -> Rows:
    """Rows `[n, heads, width]` for a layer of a plane.

    :raises ValueError: for rows of another number or width, and on fp8 planes a scale that is none.
    """
    rows, scale, name = given
    shaped = given_rows(rows, *shape, name)
    if dtype in FP8_DTYPES and scale is not None:
        checked_scale(scale)
    return Rows(layer, shaped, scale)
