"""Rows as callers pass them: by head, or flat."""

from __future__ import annotations

from torch import Tensor

from kvproto.kernels.to_stored import check_float

__all__ = ["given_rows"]


def given_rows(given: Tensor, n: int, heads: int, width: int, name: str) -> Tensor:
    """`[n, heads, width]` of the same rows, an alias where strides allow.

    :raises ValueError: for another shape, or rows of integers, naming the argument.
    """
    check_float(name, given)
    if given.shape == (n, heads, width):
        return given
    if given.shape != (n, heads * width):
        raise ValueError(
            f"{name} has shape {tuple(given.shape)}, must be ({n}, {heads}, {width}) for {n} "
            f"locations, {heads} heads and width {width}; nothing was written"
        )
    return given.reshape(n, heads, width)
