"""The reference page allocator, with what sglang's scheduler asks of every allocator."""

from __future__ import annotations

import torch
from torch import Tensor

from kvproto.debug import maybe_validate
from kvproto.reference import PageAllocator

from .scheduler_calls import OneSpaceCalls

__all__ = ["SGLangPageAllocator"]


class SGLangPageAllocator(OneSpaceCalls, PageAllocator):
    """`PageAllocator` behind the constructor and the calls of sglang's paged allocator.

    A size that ends inside a page is cut to whole pages. What is policy of sglang's scheduler
    (prefill budgets, evictions) is sglang's own code, asked with this allocator. With
    `KVPROTO_DEBUG=1` calls are validated.

    :raises ValueError: for a size below one page.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: object,
        need_sort: bool,
    ) -> None:
        whole = size // page_size * page_size
        PageAllocator.__init__(self, whole, page_size, dtype, device, kvcache, need_sort)
        maybe_validate(self)

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
        num_new_pages: int | None = None,
    ) -> Tensor | None:
        """As `PageAllocator.alloc_extend`, which counts the new pages itself."""
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        return super().alloc_extend(*lens, last_loc, extend_num_tokens)
