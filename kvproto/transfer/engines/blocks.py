"""Checks of blocks that every engine makes before it hands them on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .engine import Blocks, EngineError, Span

__all__ = ["check_blocks", "check_registered", "spans_table"]


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


def check_registered(where: str, end: str, blocks: Blocks, spans: Blocks) -> None:
    """Every block lies in spans that begin before it, one of which ends after it.

    :raises EngineError: beginning with `where`.
    """
    order = spans[np.argsort(spans[:, 0])]
    at = np.searchsorted(order[:, 0], blocks[:, 0], side="right") - 1
    ends = np.append(np.maximum.accumulate(order.sum(axis=1)), -1)  # -1 before the first span
    outside = np.flatnonzero(blocks.sum(axis=1) > ends[at])
    if outside.size:
        address, nbytes = blocks[outside[0]].tolist()
        raise EngineError(f"{where}: {nbytes} {end} bytes at {address:#x} are not registered")
