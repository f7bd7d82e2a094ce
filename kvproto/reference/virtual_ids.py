"""Ids that stay while the slot behind them may move."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from kvproto.kernels import paged_locations
from kvproto.kernels.page_slots import pages_of, pages_touched
from kvproto.kernels.table_entries import set_entries, take_entries
from kvproto.protocols import SlotAllocator, require

from .free_list import FreeList
from .slot_allocator import page_disjoint

__all__ = ["VirtualIds"]


class VirtualIds:
    """Virtual ids of whole pages, lent by an allocator that is injected, over pages of its own.

    A page of ids has a physical page from `alloc` until it is freed; `move_page` puts another
    behind it: whoever moves the rows calls it, between two forward passes. The longest free
    physical page is taken first. `full_v2p_page_table` is one tensor for good.

    :raises ValueError: for fewer physical pages than one.
    :raises CapabilityError: for what cannot lend ids.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    page_size: int
    device: torch.device
    full_v2p_page_table: Tensor
    unified_buffer: object

    def __init__(
        self,
        *,
        virtual_allocator: SlotAllocator,
        physical_pages: int,
        unified_buffer: object,
        kvcache: object,
    ) -> None:
        require(virtual_allocator, SlotAllocator, for_="virtual ids")
        if physical_pages < 1:
            raise ValueError(f"physical_pages={physical_pages}: must be at least 1")
        self._ids = virtual_allocator
        self.page_size, self.device = (
            virtual_allocator.page_size,
            torch.device(virtual_allocator.device),
        )
        self._pages = FreeList(physical_pages, self.device)
        self.unified_buffer, self._kvcache = unified_buffer, kvcache
        count = virtual_allocator.size // self.page_size + 1
        self.full_v2p_page_table = torch.zeros(count, dtype=torch.int64, device=self.device)

    @property
    def size(self) -> int:
        """Token slots that can be owned at once."""
        return min(self._ids.size, self._pages.capacity * self.page_size)

    @property
    def draft_virtual_id_space(self) -> int:
        """The largest id there is."""
        return self._ids.size + self.page_size - 1

    def get_kvcache(self) -> object:
        """The pool that was given to the constructor."""
        return self._kvcache

    def available_size(self) -> int:
        """Ids that can be had with a slot behind them."""
        return min(self._ids.available_size(), self._pages.available() * self.page_size)

    def alloc(self, need_size: int, /) -> Tensor | None:
        """Whole pages of ids, each with a physical page, or None and no change."""
        if need_size > self.available_size():
            return None
        ids = self._ids.alloc(need_size)
        pages = self._pages.take(need_size // self.page_size)
        if ids is None or pages is None:
            raise RuntimeError("the allocator of ids had fewer than its available_size() said")
        lent = pages_of(ids[:: self.page_size], self.page_size)
        set_entries(self.full_v2p_page_table, lent, pages)
        return ids

    def translate_kv_loc(self, loc: Tensor, /, *, out: Tensor | None = None) -> Tensor:
        """Physical slots of ids, int64, same shape: 0 without one, below 0 and past the end.

        :raises ValueError: for an `out` of another shape or dtype.
        """
        found = paged_locations(self.full_v2p_page_table, loc, self.page_size)
        return found if out is None else _checked(out, found.shape).copy_(found)

    def translate_write_loc(
        self, loc: Tensor, /, *, out: Tensor | None = None, out_width: int | None = None
    ) -> Tensor:
        """The same, of one row of ids, with zeros behind it up to `out_width`.

        :raises ValueError: for a width below the number of ids, or an `out` that does not fit.
        """
        width = loc.shape[0] if out_width is None else out_width
        if width < loc.shape[0]:
            raise ValueError(f"out_width={width}: there are {loc.shape[0]} ids")
        target = loc.new_empty(width, dtype=torch.int64) if out is None else out
        _checked(target, torch.Size([width]))
        found = self.translate_kv_loc(loc)  # before a write: the ids may lie in `out`
        target[: loc.shape[0]].copy_(found)
        target[loc.shape[0] :].zero_()
        return target

    def move_page(self, virtual_page: int, /) -> tuple[int, int]:
        """Put the longest free physical page behind a lent page of ids: the old one and the new.

        :raises ValueError: when nothing is behind it, or no page is free; nothing has changed.
        """
        old = int(self.full_v2p_page_table[virtual_page])
        taken = self._pages.take(1) if old else None
        if taken is None:
            why = "no physical page is free" if old else "it has no physical page"
            raise ValueError(f"virtual_page={virtual_page}: {why}")
        new = int(taken[0])
        self.full_v2p_page_table[virtual_page] = new
        self._pages.release(self.full_v2p_page_table.new_tensor([old]))
        return old, new

    def free(self, free_index: Tensor, /) -> None:
        """Free every page of ids that one of `[n]` ids is on, and the page behind it."""
        if free_index.shape[0]:
            pages = pages_touched(free_index, self.page_size)
            self._ids.free(free_index)
            self._release(pages)

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Free consecutive tokens of one request; fixed-shape."""
        self._ids.free_segment(free_index, start_pos=start_pos)
        if free_index.shape[0]:
            self._release(pages_of(free_index[:: self.page_size], self.page_size))

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Free several segments of one request.

        :raises ValueError: when two share a page, or one does not begin on one; none is freed.
        """
        for free_index, start_pos in page_disjoint(segments, self.page_size):
            self.free_segment(free_index, start_pos=start_pos)

    def free_group_begin(self) -> None:
        """Hold freed ids and pages back; that ids have no slot any more shows at once."""
        self._ids.free_group_begin()
        self._pages.begin_group()

    def free_group_end(self) -> None:
        """Return what the group held back."""
        self._ids.free_group_end()
        self._pages.end_group()

    def clear(self) -> None:
        """Own nothing; no id has a slot."""
        self._ids.clear()
        self._pages.clear()
        self.full_v2p_page_table.zero_()

    def _release(self, pages: Tensor) -> None:
        self._pages.release(take_entries(self.full_v2p_page_table, pages))


def _checked(out: Tensor, shape: torch.Size) -> Tensor:
    if out.shape != shape or out.dtype != torch.int64:
        raise ValueError(f"out is {out.dtype} {list(out.shape)}, must be int64 {list(shape)}")
    return out
