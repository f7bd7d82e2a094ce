"""Token slots lent one by one."""

from __future__ import annotations

import torch
from torch import Tensor

from .slot_allocator import FreeListAllocator

__all__ = ["TokenAllocator"]


class TokenAllocator(FreeListAllocator):
    """Slots `1 .. size` without pages; the longest free is lent first.

    It is no `PagedAllocator`: with pages of one token there is nothing to continue, `alloc` is
    the whole of it.

    :raises ValueError: for a size below 1.
    """

    def __init__(
        self,
        size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: object,
        need_sort: bool,
        strict: bool = False,
    ) -> None:
        super().__init__(size, 1, dtype, device, kvcache, need_sort, strict, newest_first=False)

    def alloc(self, need_size: int, /) -> Tensor | None:
        """`[need_size]` int64 slots, or None and no change when too few are free."""
        return self._free.lend(self._pages_for(need_size))

    def free(self, free_index: Tensor, /) -> None:
        """Take slots back, `[n]`, in any order; a slot may be named twice in one call.

        :raises ValueError: in strict mode, for slots that are not owned; nothing is freed.
        """
        if free_index.shape[0]:
            self._free.free_segment(free_index)
