"""Token slots lent by the page."""

from __future__ import annotations

import torch
from torch import Tensor

from .slot_allocator import FreeListAllocator

__all__ = ["PageAllocator"]


class PageAllocator(FreeListAllocator):
    """Pages `1 .. size / page_size`; the last freed are lent first.

    A page goes back whole: naming another slot of it later is a second free.

    :raises ValueError: for a size that is no positive multiple of the page size.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: object,
        need_sort: bool,
        strict: bool = False,
    ) -> None:
        super().__init__(
            size, page_size, dtype, device, kvcache, need_sort, strict, newest_first=True
        )

    def alloc(self, need_size: int, /) -> Tensor | None:
        """Whole pages: `[need_size]` int64 slots, or None and no change when too few are free.

        :raises ValueError: for a need that ends inside a page.
        """
        return self._free.lend(self._pages_for(need_size))

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """Slots that continue each request, as `PagedAllocator` says.

        :raises ValueError: when `extend_num_tokens` is not what the lengths add up to.
        """
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        return self._free.extend(*lens, last_loc, extend_num_tokens)

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        """A slot for the last token of each request, as `PagedAllocator` says."""
        return self._free.decode(seq_lens, seq_lens_cpu, last_loc)

    def free(self, free_index: Tensor, /) -> None:
        """Take back every page that one of `[n]` slots is on, in any order; waits for the device.

        :raises ValueError: in strict mode, for pages that are not owned; nothing is freed.
        """
        if free_index.shape[0]:
            self._free.free_slots(free_index)
