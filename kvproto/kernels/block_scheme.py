"""How rows under block scales are stored, and where their scales lie."""

from __future__ import annotations

from typing import Literal, TypeAlias

from torch import Tensor

__all__ = ["BlockScheme", "is_interleaved"]

BlockScheme: TypeAlias = Literal["mxfp8", "fp4_mx16", "nvfp4"]
"""`quantise_mxfp8`, or `quantise_fp4` with one of its styles of scales."""


def is_interleaved(scales: Tensor) -> bool:
    """Whether scales lie in atoms of 32 tokens, and not by token."""
    return scales.dim() == 5
