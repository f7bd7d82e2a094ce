"""Rows by head on their way into a buffer, when several are checked before the first is stored."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.kernels.fp8 import Scale

from .row_side import as_stored

__all__ = ["HeadRows"]


@dataclass(frozen=True, slots=True)
class HeadRows:
    """Rows called `name`, as they were given, for a buffer `[slots, heads, width]`."""

    target: Tensor
    dtype: torch.dtype
    given: Tensor
    scale: Scale
    name: str

    def stored(self, count: int) -> tuple[Tensor, Tensor]:
        """The buffer, and `count` rows of its elements.

        :raises ValueError: for rows of another number or width.
        """
        _, heads, width = self.target.shape
        shape = (count, heads, width)
        return self.target, as_stored(self.given, shape, self.dtype, self.scale, self.name)
