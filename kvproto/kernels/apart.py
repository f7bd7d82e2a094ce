"""Rows that lie in the memory they are to be written to."""

from __future__ import annotations

from torch import Tensor

__all__ = ["apart"]


def apart(rows: Tensor, *targets: Tensor) -> Tensor:
    """The rows, copied where they share storage with a target.

    Programs of a kernel write some rows while others still read: what a twin reads first, a kernel
    needs elsewhere.
    """
    held = _storage(rows)
    return rows.clone() if any(_storage(target) == held for target in targets) else rows


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
