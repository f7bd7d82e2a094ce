"""Slots for tokens on the host, and fewer for those on the device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .allocator import SlotAllocator

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HiSparseAllocator"]


@runtime_checkable
class HiSparseAllocator(SlotAllocator, Protocol):
    """Can the allocator lend a token an id without a place on the device?

    The ids it lends are logical, and `size` counts them; those with a device slot are in the
    mapping of the `HiSparse` pool, and `available_size` is the smaller of both.
    """

    @property
    def logical_attn_allocator(self) -> SlotAllocator:
        """The ids of all tokens."""
        ...

    @property
    def hisparse_attn_allocator(self) -> SlotAllocator:
        """The device slots."""
        ...

    def alloc_logical_only(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor | None:
        """As `PagedAllocator.alloc_extend`, without device slots: the mapping is 0.

        What continues there later is without one up to the end of the page.
        """
        ...

    def alloc_device_buffer(self, allocated_indices: Tensor, need_size: int, /) -> Tensor | None:
        """`[need_size]` device slots for a request, taken from its own tokens first.

        `allocated_indices` are the request's compressed ids; they lose their device slots, which
        become part of the buffer or are freed. `need_size` is a multiple of the device page, and
        the buffer whole pages. None, with nothing changed, when too few slots are free.
        """
        ...

    def free_hisparse(self, free_indices: Tensor, /) -> None:
        """Free the device slots of logical ids and clear their mapping; the ids stay owned.

        A page is freed as a whole: its other ids lose their slots with it.
        """
        ...

    def free_hisparse_indices(self, buffer_indices: Tensor, /) -> None:
        """Free device slots themselves; slots of the reserved page are skipped."""
        ...
