"""Which pages of a transfer have all of their layers: what decides that they may be seen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..manifests.manifest import IndexSpace
from .messages import Part
from .steps import Steps

__all__ = ["Arrivals", "UnexpectedPart"]


class UnexpectedPart(ValueError):
    """A notification of pages or layers that the transfer has not."""


class Arrivals:
    """What came of one peer, layer by layer and page by page."""

    def __init__(self, steps: Steps, counts: Mapping[IndexSpace, int]) -> None:
        self._here: dict[IndexSpace, NDArray[np.bool_]] = {}
        for space, count in counts.items():
            without = np.array(steps.nbytes[space], np.int64) == 0
            self._here[space] = np.repeat(without[:, None], count, axis=1)
        self._left = sum(int((~table).sum()) for table in self._here.values())

    @property
    def is_complete(self) -> bool:
        """Whether every page has every layer."""
        return not self._left

    def add(self, part: Part) -> bool:
        """Note a part; False for one that came before.

        :raises UnexpectedPart: for a part that is outside.
        """
        table = self._here.get(part.space)
        if table is None or not _fits(part, table.shape):
            raise UnexpectedPart(f"notified of what was not asked for: {part}")
        cells = table[part.step_begin : part.step_end, part.page_begin : part.page_end]
        missing = int((~cells).sum())
        cells[:] = True
        self._left -= missing
        return missing > 0


def _fits(part: Part, shape: tuple[int, ...]) -> bool:
    steps, pages = shape
    return (
        0 <= part.step_begin < part.step_end <= steps
        and 0 <= part.page_begin < part.page_end <= pages
    )
