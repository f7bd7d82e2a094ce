"""Rows as blocks of elements that share a scale."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["as_blocks", "largest"]


def as_blocks(rows: Tensor, block: int) -> Tensor:
    """`[..., width]` as `[..., width // block, block]`; the width is whole blocks."""
    return rows.reshape(*rows.shape[:-1], rows.shape[-1] // block, block)


def largest(blocks: Tensor) -> Tensor:
    """The largest magnitude of each block, `[..., 1]`; NaN elements have no say in it."""
    return torch.where(blocks.isnan(), 0.0, blocks.abs()).amax(-1, keepdim=True)
