"""What a consumer of each layout finds behind a read door, and how it finds a token's row there.

Written from what attention kernels index, not from any pool's code: slots (`nhd`), pages by head
(`hnd`), pages by token (`paged_nhd`), 16 bytes at a time (`vectorized_5d`), and of latent rows in
two planes those of latents behind the key door and those of rope behind the value door
(`latent_split`), 32 bytes at a time (`latent_split_nz`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from kvproto.protocols import Layout

from .broken import LawBroken
from .stored_rows import Side

__all__ = ["DoorForm", "DoorForms", "Rows", "form_of", "no_form"]

_VECTOR_BYTES = 16
_BLOCK_BYTES = 32


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows a door shows: `slots` on pages of `page_size`, `heads` of `width` elements."""

    side: Side
    slots: int
    page_size: int
    heads: int
    width: int
    itemsize: int


@dataclass(frozen=True, slots=True)
class DoorForm:
    """A door's `shape`: which of its axes count slots, and which lead along a token's row."""

    layout: Layout
    rows: Rows
    shape: tuple[int, ...]
    slot_axes: tuple[int, ...]

    def by_slot(self, call: str, shown: Tensor) -> Tensor:
        """All rows, `[slots, heads, width]`.

        :raises LawBroken: for a tensor that has not the layout's shape.
        """
        return self._ordered(call, shown).reshape(self.rows.slots, self.rows.heads, self.rows.width)

    def row(self, call: str, shown: Tensor, slot: int) -> Tensor:
        """One row, `[heads, width]`, without touching the others."""
        digits: list[int] = []
        for axis in reversed(self.slot_axes):
            slot, digit = divmod(slot, self.shape[axis])
            digits.append(digit)
        found = self._ordered(call, shown)[tuple(reversed(digits))]
        return found.reshape(self.rows.heads, self.rows.width)

    def _ordered(self, call: str, shown: Tensor) -> Tensor:
        if tuple(shown.shape) != self.shape:
            wanted = f"{self.layout} {self.rows.side}s of shape {self.shape}"
            raise LawBroken(call, expected=wanted, got=f"shape {tuple(shown.shape)}")
        along = [axis for axis in range(len(self.shape)) if axis not in self.slot_axes]
        return shown.permute(*self.slot_axes, *along)


def form_of(layout: Layout, rows: Rows) -> DoorForm | None:
    """The form that a consumer of the layout reckons with; None for those the kit has none of."""
    pages, page, heads, width = rows.slots // rows.page_size, rows.page_size, rows.heads, rows.width
    x = _VECTOR_BYTES // rows.itemsize
    match layout, rows.side:
        case (("nhd" | "page_envelope" | "latent_rows"), _):
            return DoorForm(layout, rows, (rows.slots, heads, width), (0,))
        case (("paged_nhd" | "latent_split"), _):
            return DoorForm(layout, rows, (pages, page, heads, width), (0, 1))
        case "latent_split_nz", _:
            c0 = _BLOCK_BYTES // rows.itemsize
            return DoorForm(layout, rows, (pages, heads * width // c0, page, c0), (0, 2))
        case "hnd", _:
            return DoorForm(layout, rows, (pages, heads, page, width), (0, 2))
        case "vectorized_5d", "key":
            return DoorForm(layout, rows, (pages, heads, width // x, page, x), (0, 3))
        case "vectorized_5d", "value":
            return DoorForm(layout, rows, (pages, heads, page // x, width, x), (0, 2, 4))
        case _:
            return None


DoorForms: TypeAlias = Callable[[Side, int], DoorForm | None]
"""By side and global layer id; None where rows are the last two axes, whatever is before them."""


def no_form(_side: Side, _layer_id: int, /) -> None:
    """For pools of which nothing is known."""
