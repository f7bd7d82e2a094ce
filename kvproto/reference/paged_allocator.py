"""Token slots lent by the page."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels.alloc_decode import alloc_decode
from kvproto.kernels.alloc_extend import alloc_extend
from kvproto.kernels.page_slots import page_slots, pages_touched

from .page_demand import pages_to_decode, pages_to_extend
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
        self._offsets = torch.arange(page_size, device=self.device)

    def alloc(self, need_size: int, /) -> Tensor | None:
        """Whole pages: `[need_size]` int64 slots, or None and no change when too few are free.

        :raises ValueError: for a need that ends inside a page.
        """
        pages = self._free.take(self._pages_for(need_size))
        return None if pages is None else page_slots(pages, self._offsets)

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
        new_pages, extend = pages_to_extend(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        if extend != extend_num_tokens:
            raise ValueError(f"extend_num_tokens={extend_num_tokens}: the lengths say {extend}")
        most = extend // self.page_size + prefix_lens.shape[0] + 1
        pages = self._free.take(new_pages, expected=most)
        if pages is None:
            return None
        return alloc_extend(prefix_lens, seq_lens, last_loc, pages, self.page_size, extend)

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        """A slot for the last token of each request, as `PagedAllocator` says."""
        new_pages = pages_to_decode(seq_lens_cpu, self.page_size)
        pages = self._free.take(new_pages, expected=seq_lens.shape[0])
        return None if pages is None else alloc_decode(seq_lens, last_loc, pages, self.page_size)

    def free(self, free_index: Tensor, /) -> None:
        """Take back every page that one of `[n]` slots is on, in any order; waits for the device.

        :raises ValueError: in strict mode, for pages that are not owned; nothing is freed.
        """
        if free_index.shape[0]:
            pages = pages_touched(free_index, self.page_size)
            self._free.release(pages, as_set=True)
