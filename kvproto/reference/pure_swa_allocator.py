"""Slots of a model whose every layer is windowed: the two spaces are one."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from kvproto.kernels.page_slots import pages_of
from kvproto.protocols import SlotAllocator, SWACapable

from .mapped_pair import MappedPageFree
from .page_demand import pages_to_extend
from .peer_mapping import PeerMapping
from .slot_allocator import page_disjoint
from .token_allocator import TokenAllocator

__all__ = ["PureSWAAllocator"]


class PureSWAAllocator:
    """Slots `1 .. size_swa`, each its own peer while it is lent.

    Freeing the peer frees the slot, and there is nothing left to free: the slot may have another
    owner at once, so whoever freed a token does not name it again. A pool that is `SWACapable`
    is given the table, which holds the lent slots and 0 elsewhere.

    `page_size` is there for the call shape in use today and must be 1, as every consumer of such
    models has it: a page would keep tokens that left the window as long as one that has not.
    `slots` is who lends them, whoever made it; without one it is a `TokenAllocator`.

    :raises ValueError: for another page size, or a size below 1.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    page_size: int
    dtype: torch.dtype
    device: torch.device
    need_sort: bool
    full_attn_allocator: SlotAllocator
    swa_attn_allocator: SlotAllocator
    full_to_swa_index_mapping: Tensor

    def __init__(
        self,
        size_swa: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: object,
        need_sort: bool,
        strict: bool = False,
        slots: SlotAllocator | None = None,
    ) -> None:
        if page_size != 1:
            raise ValueError(
                f"page_size={page_size}: a model of window layers alone is served token by token, "
                "with page_size=1; give it a full side too (SWAPairAllocator) for pages"
            )
        self.page_size, self.dtype, self.need_sort = page_size, dtype, need_sort
        self.device = torch.device(device)
        own = TokenAllocator(size_swa, dtype, device, kvcache, need_sort, strict)
        self._slots: SlotAllocator = own if slots is None else slots
        self._fixed_shape = self._slots if isinstance(self._slots, MappedPageFree) else None
        self.full_attn_allocator = self.swa_attn_allocator = self._slots
        self._mapping = PeerMapping(size_swa, page_size, self.device)
        self.full_to_swa_index_mapping = self._mapping.table
        self._kvcache = kvcache
        if isinstance(kvcache, SWACapable):
            kvcache.register_mapping(self._mapping.table)

    @property
    def size(self) -> int:
        """Slots of the one space."""
        return self._slots.size

    @property
    def size_full(self) -> int:
        """The same."""
        return self.size

    @property
    def size_swa(self) -> int:
        """The same."""
        return self.size

    def get_kvcache(self) -> object:
        """The pool that was given to the constructor."""
        return self._kvcache

    def available_size(self) -> int:
        """Slots that can be allocated; waits for segment frees it has not counted."""
        return self._slots.available_size()

    def full_available_size(self) -> int:
        """The same."""
        return self.available_size()

    def swa_available_size(self) -> int:
        """The same."""
        return self.available_size()

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        """Lent slots themselves, int64, same shape; 0 for what nobody owns, -1 for negative ones.

        :raises IndexError: on the CPU, for slots past the end.
        """
        return self._mapping.translate(kv_indices)

    def alloc(self, need_size: int, /) -> Tensor | None:
        """`[need_size]` int64 slots, or None and no change when too few are free."""
        slots = self._slots.alloc(need_size)
        if slots is not None:
            self._mapping.pair(slots, slots)
        return slots

    def alloc_extend_swa_tail(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
        swa_tail_len: int,
    ) -> Tensor | None:
        """Slots for the last `swa_tail_len` new tokens of one request; 0 for those before them.

        :raises ValueError: for more than one request, or a tail longer than what is new.
        """
        _, extend = pages_to_extend(prefix_lens_cpu, seq_lens_cpu, 1)
        if seq_lens_cpu.shape[0] != 1 or not 0 <= swa_tail_len <= extend == extend_num_tokens:
            raise ValueError(
                f"{seq_lens_cpu.shape[0]} requests with swa_tail_len={swa_tail_len} of "
                f"{extend_num_tokens} tokens: must be one request and a part of them"
            )
        tail = self.alloc(swa_tail_len)
        if tail is None:
            return None
        return torch.cat((tail.new_zeros(extend_num_tokens - swa_tail_len), tail))

    def free(self, free_index: Tensor, /) -> None:
        """Take slots back, `[n]`, in any order; 0 stands for a token that has none.

        :raises ValueError: in strict mode, for slots that are not owned; nothing is freed.
        """
        if free_index.shape[0]:
            slots = pages_of(free_index, 1)
            if self._fixed_shape is not None:
                self._fixed_shape.free_mapped_pages(slots)
            else:
                self._slots.free(slots[slots > 0])
            self._mapping.unpair_pages(slots)

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """The same for consecutive tokens of a request; fixed-shape unless strict."""
        self.free(free_index)

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Take back several segments of one request.

        :raises ValueError: when two share a token; none is freed.
        """
        for free_index, _ in page_disjoint(segments, 1):
            self.free(free_index)

    def free_swa(self, free_index: Tensor, /) -> None:
        """`free`: the peer of a slot is the slot."""
        self.free(free_index)

    def free_swa_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """`free_segment`."""
        self.free(free_index)

    def free_full(self, free_index: Tensor, /) -> None:
        """Nothing: a slot went with its peer, and may be another request's by now."""

    def free_full_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Nothing, as `free_full`."""

    def free_group_begin(self) -> None:
        """Hold freed slots back from now on; that they have no peer any more shows at once.

        :raises RuntimeError: inside a group.
        """
        self._slots.free_group_begin()

    def free_group_end(self) -> None:
        """Return what the group held back; nothing without a group."""
        self._slots.free_group_end()

    def clear(self) -> None:
        """Own nothing, as when built; a group is over."""
        self._slots.clear()
        self._mapping.clear()
