"""Where the rows of token slots lie in pages whose axes are tiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd, prod
from typing import TypeAlias

import torch
from torch import Tensor

__all__ = ["RowTiles", "Tiles", "check_tiled"]

Tiles: TypeAlias = tuple[tuple[int, int], ...]
"""Levels of an axis, outermost first: how many steps, and how many elements each goes on."""


@dataclass(frozen=True, slots=True)
class RowTiles:
    """Pages `page_stride` elements apart; in them `token` leads to a row, `row` along it.

    Slot `s` is token `s % page_size` of page `s // page_size`. An index along an axis is a
    mixed-radix number in the tiles of that axis; the order of `row` is that of a row as callers
    give it (head after head). `unit` is how many elements lie together in every row: copies move
    so many at a time. `steps` is `row` in units, the last of its levels those that follow
    each other.
    """

    page_stride: int
    token: Tiles
    row: Tiles
    page_size: int = field(init=False)
    row_elements: int = field(init=False)
    unit: int = field(init=False)
    steps: Tiles = field(init=False)

    def __post_init__(self) -> None:
        dense, outer = 1, [tile for tile in self.row if tile[0] > 1]
        while outer and outer[-1][1] == dense:
            dense *= outer.pop()[0]
        strides = [stride for extent, stride in (*self.token, *outer) if extent > 1]
        unit = gcd(dense, self.page_stride, *strides)
        steps = (*((extent, stride // unit) for extent, stride in outer), (dense // unit, 1))
        object.__setattr__(self, "page_size", prod(extent for extent, _ in self.token))
        object.__setattr__(self, "row_elements", prod(extent for extent, _ in self.row))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "steps", steps)

    def slots_of(self, tensor: Tensor) -> int:
        """How many slots the pages of a tensor have."""
        return tensor.numel() // self.page_stride * self.page_size

    def units(self, slots: Tensor) -> Tensor:
        """`[n * units of a row]` int64, row after row: the units that `[n]` slots consist of.

        Counted over the whole buffer; the arithmetic is in 64 bits.
        """
        wide = slots.to(torch.int64)
        page = wide.div(self.page_size, rounding_mode="floor")
        start, rest = page * (self.page_stride // self.unit), wide - page * self.page_size
        for extent, stride in reversed(self.token):
            outer = rest.div(extent, rounding_mode="floor")
            start += (rest - outer * extent) * (stride // self.unit)
            rest = outer
        return (start.unsqueeze(-1) + self._along_a_row(slots.device)).flatten()

    def _along_a_row(self, device: torch.device) -> Tensor:
        """Where the units of a row are, from its first, in the row's own order."""
        at = torch.zeros(1, dtype=torch.int64, device=device)
        for extent, stride in self.steps:
            along = torch.arange(extent, device=device) * stride
            at = (at.unsqueeze(-1) + along).flatten()
        return at


def check_tiled(operation: str, tensor: Tensor, tiles: RowTiles) -> None:
    """Whether a tensor is whole pages of such tiles, in dense memory.

    :raises ValueError: naming the operation, what it is and must be.
    """
    if not tensor.is_contiguous() or tensor.numel() % tiles.page_stride:
        raise ValueError(
            f"{operation}: {tensor.dtype} {tuple(tensor.shape)} has strides {tensor.stride()}; "
            f"served are dense pages of {tiles.page_stride} elements; nothing was written"
        )
