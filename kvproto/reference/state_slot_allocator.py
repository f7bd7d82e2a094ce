"""State slots: one per request, whatever its length."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels.table_entries import without

from .free_list import FreeList

__all__ = ["StateSlots"]


class StateSlots:
    """Slots `1 .. size` of a recurrent state pool; the longest free is lent first.

    With `strict`, freeing a slot that is not owned raises, otherwise it is ignored.

    :raises ValueError: for a size below 1.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    device: torch.device
    strict: bool

    def __init__(self, size: int, device: str | torch.device, strict: bool = False) -> None:
        if size < 1:
            raise ValueError(f"size={size}: must be at least 1")
        self.size, self.device, self.strict = size, torch.device(device), strict
        self._free = FreeList(size, self.device, strict=strict)
        self._ahead: list[Tensor] = []

    def available_size(self) -> int:
        """Slots that can be allocated, those taken ahead not counted."""
        return self._free.available()

    def schedulable_available_size(self) -> int:
        """The same: nobody else draws on these slots."""
        return self.available_size()

    def alloc(self, need_size: int, /) -> Tensor | None:
        """`[need_size]` int64 slots, or None and no change when too few are free.

        :raises ValueError: for a negative need.
        """
        if need_size < 0:
            raise ValueError(f"need_size={need_size}: must not be negative")
        if need_size == 1 and self._ahead:
            return self._ahead.pop(0)
        slots = self._free.take(need_size)
        return None if slots is None else slots.clone()

    def free(self, free_index: Tensor, /) -> None:
        """Take slots back, `[n]`, in any order.

        :raises ValueError: in strict mode, for slots that are not owned; nothing is freed.
        """
        if free_index.shape[0]:
            self._free.release(self._lent(free_index.to(torch.int64)))

    def _lent(self, slots: Tensor) -> Tensor:
        """With 0 in place of slots that are taken ahead: nobody owns them yet."""
        if not self._ahead:
            return slots
        return without(slots, torch.cat(self._ahead))

    def alloc_group_begin(self, num_reqs: int, /) -> None:
        """Take a slot ahead for each of `num_reqs` calls of `alloc(1)`, if there are as many.

        A group that was left open ends first.
        """
        self.alloc_group_end()
        if num_reqs > 0 and (slots := self._free.take(num_reqs)) is not None:
            self._ahead = list(slots.clone().unsqueeze(1))

    def alloc_group_end(self) -> None:
        """Return what was taken ahead and not asked for."""
        rest, self._ahead = self._ahead, []
        if rest:
            self._free.release(torch.cat(rest))

    def get_all_free_pages(self) -> Tensor:
        """All free slots, in no promised order, for tests of the accounts."""
        return self._free.pages()

    def clear(self) -> None:
        """Own nothing, as when built; what was taken ahead is free too."""
        self._ahead = []
        self._free.clear()
