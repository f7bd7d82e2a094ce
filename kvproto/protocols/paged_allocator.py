"""Slots lent by the page, so that a request's tokens fill the pages it holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .allocator import SlotAllocator

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PagedAllocator"]


@runtime_checkable
class PagedAllocator(SlotAllocator, Protocol):
    """Can the allocator continue each request of a batch on the page it ends on?

    Lengths are given twice, on the device and on the host, so that neither waits for the
    other. All or nothing: where a batch does not fit, None comes back and nothing changed,
    in any part of a composite allocator.
    """

    def alloc_extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """Slots for tokens `prefix_lens[i]` to `seq_lens[i]` of request `i`, request after request.

        All `[requests]` int64, the `_cpu` ones equal and on the host. `last_loc[i]` is the slot
        of the last prefix token, -1 without one. Token `t` gets a slot with
        `slot % page_size == t % page_size`. The result is `[extend_num_tokens]` int64, whose
        length is the sum of the differences.
        """
        ...

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        """`[requests]` int64: a slot for the last token of each, its length already counted.

        `last_loc[i]` is the slot of the token before it. A new page is taken where that one
        ended a page.
        """
        ...
