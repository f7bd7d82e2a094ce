"""Which bytes of a piece of memory are lent, and which are free."""

from __future__ import annotations

from bisect import insort

__all__ = ["ALIGNMENT", "FreeRanges", "aligned"]

ALIGNMENT = 256
"""Every range begins at a multiple of it."""


def aligned(place: int) -> int:
    """The first place from here on at which a range may begin."""
    return -(-place // ALIGNMENT) * ALIGNMENT


class FreeRanges:
    """Bytes `0 .. nbytes - 1`, lent in ranges, the first that is long enough."""

    def __init__(self, nbytes: int) -> None:
        self._free = [(0, nbytes)]

    def take(self, nbytes: int) -> int | None:
        """Where so many bytes begin, which are free no longer; None where no range is so long."""
        for at, (begin, end) in enumerate(self._free):
            first = aligned(begin)
            if first + nbytes <= end:
                parts = ((begin, first), (first + nbytes, end))
                self._free[at : at + 1] = [part for part in parts if part[0] < part[1]]
                return first
        return None

    def give_back(self, begin: int, nbytes: int) -> None:
        """Bytes that `take` lent are free again, and one range with their neighbours."""
        insort(self._free, (begin, begin + nbytes))
        joined: list[tuple[int, int]] = []
        for first, end in self._free:
            meets = joined and joined[-1][1] == first
            joined.append((joined.pop()[0] if meets else first, end))
        self._free = joined
