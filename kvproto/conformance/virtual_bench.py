"""An allocator of virtual ids on the bench."""

from __future__ import annotations

from collections.abc import Iterable

from .account_bench import AllocBench, slots

__all__ = ["VirtualBench"]


class VirtualBench(AllocBench):
    """What is lent are ids; where they are now is asked for."""

    def physical(self, given: Iterable[int]) -> list[int]:
        """The physical slots of ids."""
        return [int(slot) for slot in self.pool.translate_kv_loc(slots(given))]

    def all_peers(self) -> list[int]:
        """The physical slots of all ids."""
        return self.physical(self.lendable)
