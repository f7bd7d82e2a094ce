"""Ids for all tokens, device slots for some: the rest live on the host."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from kvproto.kernels.distinct_pages import distinct_pages
from kvproto.kernels.page_slots import page_slots, pages_of, pages_touched
from kvproto.protocols import HiSparse, PagedAllocator, SlotAllocator, require

from .mapped_pair import MappedPair

__all__ = ["DeviceSubsetAllocator"]


class DeviceSubsetAllocator(MappedPair):
    """Logical ids over a device that has room for fewer: the ids lent are the logical ones.

    `alloc` and `alloc_extend` lend a device slot with every id, `alloc_logical_only` and
    `alloc_decode` none: the token a decode step adds is written where its request's buffer has
    room (`alloc_device_buffer`). Every token is kept, so a compressed slot is the id itself.

    Both allocators are a platform's own paged ones, handed in. A pool that is `HiSparse` is
    given the table.

    :raises ValueError: for different page sizes.
    :raises CapabilityError: for a part that is no `PagedAllocator`.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    logical_attn_allocator: SlotAllocator
    hisparse_attn_allocator: SlotAllocator
    full_to_hisparse_device_index_mapping: Tensor

    def __init__(
        self,
        *,
        logical_attn_allocator: SlotAllocator,
        hisparse_attn_allocator: SlotAllocator,
        kvcache: object,
    ) -> None:
        for part in (logical_attn_allocator, hisparse_attn_allocator):
            require(part, PagedAllocator, for_="hierarchical sparse attention")
        super().__init__(
            logical_attn_allocator, hisparse_attn_allocator, kvcache, roles=("logical", "device")
        )
        self.logical_attn_allocator = logical_attn_allocator
        self.hisparse_attn_allocator = hisparse_attn_allocator
        self._offsets = torch.arange(self.page_size, device=self.device)
        self.full_to_hisparse_device_index_mapping = self._mapping.table
        if isinstance(kvcache, HiSparse):
            kvcache.register_mapping(self._mapping.table)

    @property
    def size(self) -> int:
        """Logical ids, of which the device has room for fewer."""
        return self.logical_attn_allocator.size

    @property
    def size_full(self) -> int:
        """The same."""
        return self.size

    def alloc_logical_only(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """As `alloc_extend`, without device slots, however few of them are free."""
        lens = (prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu)
        paged = cast("PagedAllocator", self.logical_attn_allocator)
        return self._unmapped(paged.alloc_extend(*lens, last_loc, extend_num_tokens))

    def alloc_decode(
        self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor, /
    ) -> Tensor | None:
        """An id for the last token of each request, without a device slot."""
        paged = cast("PagedAllocator", self.logical_attn_allocator)
        return self._unmapped(paged.alloc_decode(seq_lens, seq_lens_cpu, last_loc))

    def alloc_device_buffer(self, allocated_indices: Tensor, need_size: int, /) -> Tensor | None:
        """`[need_size]` int64 device slots, in whole pages, those of the request's tokens first.

        None, and no token has lost its slot, when too few are free. Waits for the device.

        :raises ValueError: for a need that ends inside a page.
        """
        if need_size < 0 or need_size % self.page_size:
            raise ValueError(
                f"need_size={need_size}: must be a multiple of page_size={self.page_size}, "
                "not negative"
            )
        pages = distinct_pages(pages_of(allocated_indices, self.page_size))
        own = self._mapping.peer_pages(pages)
        own = distinct_pages(own[own > 0])
        kept, surplus = own[: need_size // self.page_size], own[need_size // self.page_size :]
        more = self.hisparse_attn_allocator.alloc(need_size - kept.shape[0] * self.page_size)
        if more is None:
            return None
        self._mapping.unpair_pages(pages)
        self._free_peer_pages(surplus)
        return torch.cat((page_slots(kept, self._offsets), more))

    def free_hisparse(self, free_indices: Tensor, /) -> None:
        """Free the device pages of logical ids, and clear the mapping of whoever is on them."""
        self._free_peers(free_indices)

    def free_hisparse_indices(self, buffer_indices: Tensor, /) -> None:
        """Free device slots themselves; those of the reserved page, and below, are skipped."""
        if buffer_indices.shape[0]:
            pages = pages_touched(buffer_indices, self.page_size)
            self._free_peer_pages(pages)

    def _unmapped(self, ids: Tensor | None) -> Tensor | None:
        if ids is not None:
            self._mapping.unpair(ids)
        return ids
