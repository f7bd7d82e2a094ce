"""Entries of tables by request or by page."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["set_entries", "take_entries", "without"]


def set_entries(table: Tensor, rows: Tensor, values: Tensor) -> None:
    """`table[rows[i]] = values[i]` in the table's dtype; `[n]` int64 rows, each named once."""
    table.index_copy_(0, rows, values.to(table.dtype))


def take_entries(table: Tensor, rows: Tensor) -> Tensor:
    """The entries of `[n]` int64 rows, of which 0 is left; rows out of range are row 0, which is 0.

    Fixed-shape.
    """
    inside = rows * ((rows >= 0) & (rows < table.shape[0]))
    taken = table.index_select(0, inside)
    table.index_fill_(0, inside, 0)
    return taken


def without(slots: Tensor, others: Tensor) -> Tensor:
    """Slots with 0 in place of those that are among `others`; fixed-shape."""
    return slots.masked_fill(torch.isin(slots, others), 0)
