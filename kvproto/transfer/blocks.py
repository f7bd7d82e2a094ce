"""Checks of blocks that every engine makes before it hands them on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .engine import Blocks, EngineError, Span

__all__ = ["check_blocks", "spans_table"]


def check_blocks(where: str, local: Blocks, remote: Blocks) -> None:
    """Pairs of blocks of the same length.

    :raises EngineError: beginning with `where`.
    """
    if local.shape != remote.shape:
        raise EngineError(f"{where}: {len(local)} local blocks for {len(remote)} remote ones")
    if not np.array_equal(local[:, 1], remote[:, 1]):
        raise EngineError(f"{where}: blocks of a pair differ in length")


def spans_table(spans: Sequence[Span]) -> Blocks:
    """Spans as blocks."""
    return np.array(spans, np.int64).reshape(-1, 2)
