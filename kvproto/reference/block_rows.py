"""Rows on their way to a leaf under block scales: quantised already, or where they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from kvproto.kernels import BlockScheme, quantise_blocks, store_block_scaled_rows, store_row_sets

from .scale_layout import ScalesOfTokens

__all__ = ["BlockRows", "BlockTarget", "Quantised", "ToQuantise", "store_block_rows"]


@dataclass(frozen=True, slots=True)
class Quantised:
    """Bytes of elements and of scales."""

    elements: Tensor
    scales: Tensor

    def quantised(self) -> Quantised:
        """Themselves."""
        return self


@dataclass(frozen=True, slots=True)
class ToQuantise:
    """Rows `[n, heads, width]` of a float dtype, and the scale of the tensor, None meaning 1."""

    rows: Tensor
    scheme: BlockScheme
    tensor_scale: Tensor | None = None

    def quantised(self) -> Quantised:
        """What is stored of them."""
        return Quantised(*quantise_blocks(self.rows, self.scheme, self.tensor_scale))


BlockRows: TypeAlias = Quantised | ToQuantise


@dataclass(frozen=True, slots=True)
class BlockTarget:
    """A side of a layer: the elements of its slots, the bytes of their scales, and where."""

    elements: Tensor
    scale_bytes: Tensor
    scales: ScalesOfTokens


def store_block_rows(loc: Tensor, sides: Sequence[tuple[BlockTarget, BlockRows]]) -> None:
    """Put rows of every side at the same locations; 0 and below are dropped.

    All in one, where nothing is quantised yet.
    """
    fresh = [(into, rows) for into, rows in sides if isinstance(rows, ToQuantise)]
    if fresh and len(fresh) == len(sides):
        sets = [(to.elements, to.scale_bytes, each.rows, each.tensor_scale) for to, each in fresh]
        store_block_scaled_rows(loc, sets, fresh[0][1].scheme)
        return
    stored = [(into, rows.quantised()) for into, rows in sides]
    store_row_sets(loc, [(into.elements, rows.elements) for into, rows in stored])
    for into, rows in stored:
        into.scales.store(into.scale_bytes, loc, rows.scales)
