"""Rows by head on their way into a buffer, when several are checked before the first is stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.kernels import FP8_DTYPES, store_fp8_row_sets, store_row_sets
from kvproto.kernels.fp8 import Scale, checked_scale

from .given_rows import given_rows
from .row_side import as_stored

__all__ = ["HeadRows", "store_head_rows"]


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
        shape = self._shape(count)
        return self.target, as_stored(self.given, shape, self.dtype, self.scale, self.name)

    def to_quantise(self, count: int) -> tuple[Tensor, Tensor, Scale]:
        """The buffer of an fp8 type, `count` rows as they were given, and their scale.

        :raises ValueError: as `stored`.
        """
        if self.scale is not None:
            checked_scale(self.scale)
        return self.target, given_rows(self.given, *self._shape(count), self.name), self.scale

    def _shape(self, count: int) -> tuple[int, int, int]:
        _, heads, width = self.target.shape
        return count, heads, width


def store_head_rows(loc: Tensor, rows: Sequence[HeadRows]) -> None:
    """Put all rows at the same locations: those of an fp8 type at once, and all others.

    :raises ValueError: for rows of another number or width, or a scale that is none; nothing is
        written.
    """
    n, fp8 = loc.shape[0], {each.dtype for each in rows if each.dtype in FP8_DTYPES}
    if len(fp8) != 1:
        store_row_sets(loc, [each.stored(n) for each in rows])
        return
    quantised = [each.to_quantise(n) for each in rows if each.dtype in fp8]
    plain = [each.stored(n) for each in rows if each.dtype not in fp8]
    store_fp8_row_sets(loc, quantised, *fp8)
    if plain:
        store_row_sets(loc, plain)
