"""Which layers of a transfer are computed, and which of these are new."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..manifests.manifest import PoolName
from .steps import Step, Steps

__all__ = ["Readiness"]


class Readiness:
    """Steps that may go; each goes once."""

    def __init__(self, steps: Steps, *, everything: bool) -> None:
        self._steps, self._new = steps, [everything] * len(steps)
        self._taken = [False] * len(steps)

    @property
    def is_exhausted(self) -> bool:
        """Whether every step was taken."""
        return all(self._taken)

    def mark(self, layer_ids: Iterable[int], pool: PoolName) -> None:
        """These layers may go; one that was named before changes nothing.

        :raises ValueError: for one that does not travel.
        """
        for layer_id in layer_ids:
            step = Step(pool, layer_id)
            if step not in self._steps.order:
                raise ValueError(f"layer_id {layer_id} of the {pool} pool does not travel")
            at = self._steps.order.index(step)
            self._new[at] = not self._taken[at]

    def take(self) -> Iterator[tuple[int, int]]:
        """Runs of steps that may go and were not taken yet."""
        begin = 0
        for end in range(len(self._new) + 1):
            if end < len(self._new) and self._new[end]:
                self._new[end], self._taken[end] = False, True
                continue
            if end > begin:
                yield begin, end
            begin = end + 1
