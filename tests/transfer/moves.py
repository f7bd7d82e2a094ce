"""Descriptors as sets of single bytes, so that coalescing does not matter to a comparison."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kvproto.transfer import Descriptors

__all__ = ["by_byte", "by_byte_of"]


def by_byte(moved: Descriptors) -> dict[int, int]:
    """Remote address -> local address of every byte that travels; none twice."""
    np.testing.assert_array_equal(moved.local[:, 1], moved.remote[:, 1])
    return by_byte_of(
        (int(source), int(target), int(length))
        for (source, length), (target, _) in zip(moved.local, moved.remote, strict=True)
    )


def by_byte_of(moves: Iterable[tuple[int, int, int]]) -> dict[int, int]:
    """The same, of moves."""
    found: dict[int, int] = {}
    for source, target, length in moves:
        for step in range(length):
            assert target + step not in found
            found[target + step] = source + step
    return found
