"""Slots of the pages of a `FreeList`, in torch: on a device nothing is read back."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.kernels.alloc_decode import alloc_decode
from kvproto.kernels.alloc_extend import alloc_extend
from kvproto.kernels.page_slots import page_slots, pages_of, pages_touched

from .free_list import FreeList
from .page_demand import check_batch, check_tokens, pages_to_decode, pages_to_extend

__all__ = ["DevicePages"]


class DevicePages(FreeList):
    """Lends and takes back slots, `[n]`; those lent are int64 and a tensor of their own."""

    def __init__(
        self,
        capacity: int,
        device: torch.device,
        page_size: int = 1,
        *,
        need_sort: bool = False,
        strict: bool = False,
        newest_first: bool = False,
    ) -> None:
        super().__init__(
            capacity, device, need_sort=need_sort, strict=strict, newest_first=newest_first
        )
        self.page_size = page_size
        self._offsets = torch.arange(page_size, device=device)

    def lend(self, n: int) -> Tensor | None:
        """All slots of `n` pages, page after page; None and no change where fewer are free."""
        pages = self.take(n)
        return None if pages is None else page_slots(pages, self._offsets)

    def extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """Slots that continue each request; None and no change where too few pages are free.

        :raises ValueError: when `extend_num_tokens` is not what the lengths add up to, and for
            tensors that are not all `[requests]`; nothing has changed.
        """
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        pages = self.pages_to_extend(*lens, last_loc, extend_num_tokens)
        if pages is None:
            return None
        device = prefix_lens, seq_lens, last_loc
        return alloc_extend(*device, pages, self.page_size, extend_num_tokens)

    def pages_to_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """The new pages that `extend` takes, `[pages]` int64, as `take` gives them.

        :raises ValueError: as `extend`; nothing has changed.
        """
        check_batch(
            prefix_lens=prefix_lens,
            prefix_lens_cpu=prefix_lens_cpu,
            seq_lens=seq_lens,
            seq_lens_cpu=seq_lens_cpu,
            last_loc=last_loc,
        )
        new_pages, extend = pages_to_extend(prefix_lens_cpu, seq_lens_cpu, self.page_size)
        check_tokens(extend_num_tokens, extend)
        return self.take(new_pages, expected=extend // self.page_size + prefix_lens.shape[0] + 1)

    def decode(self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor) -> Tensor | None:
        """A slot for the last token of each request; None and no change as above.

        :raises ValueError: for tensors that are not all `[requests]`; nothing has changed.
        """
        pages = self.pages_to_decode(seq_lens, seq_lens_cpu, last_loc)
        return None if pages is None else alloc_decode(seq_lens, last_loc, pages, self.page_size)

    def pages_to_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor
    ) -> Tensor | None:
        """The new pages that `decode` takes, `[pages]` int64, as `take` gives them.

        :raises ValueError: as `decode`; nothing has changed.
        """
        check_batch(seq_lens=seq_lens, seq_lens_cpu=seq_lens_cpu, last_loc=last_loc)
        new_pages = pages_to_decode(seq_lens_cpu, self.page_size)
        return self.take(new_pages, expected=seq_lens.shape[0])

    def free_slots(self, slots: Tensor) -> None:
        """Take back every page that one of the slots is on, in ascending order; waits."""
        self.release(pages_touched(slots, self.page_size), as_set=True)

    def free_segment(self, slots: Tensor) -> None:
        """Take back the pages of consecutive tokens, of which the first begins one."""
        self.release(pages_of(slots[:: self.page_size], self.page_size))

    def free_pages(self, pages: Tensor) -> None:
        """Take back pages, int64, of which 0 stands for none; waits where strict."""
        self.release(pages[pages != 0] if self.strict else pages)
