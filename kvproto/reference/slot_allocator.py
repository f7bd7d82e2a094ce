"""What the allocators of one space share: sizes, groups, and the ways of giving back."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from kvproto.kernels.on_host import has_numpy, is_watched

from .device_pages import DevicePages
from .host_pages import HostPages

__all__ = ["FreeListAllocator"]


class FreeListAllocator:
    """Slots `page_size .. size + page_size - 1`, lent and freed by the page.

    The constructors of its classes take the keywords in use today, and `strict`: then freeing
    what is not owned raises, and every free waits for the device. Otherwise it is ignored.

    :raises ValueError: for a size that is no positive multiple of the page size.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    page_size: int
    dtype: torch.dtype
    device: torch.device
    need_sort: bool
    strict: bool

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        kvcache: object,
        need_sort: bool,
        strict: bool,
        *,
        newest_first: bool,
    ) -> None:
        _check_size(size, page_size)
        self.size, self.page_size, self.dtype = size, page_size, dtype
        self.device = torch.device(device)
        self.need_sort, self.strict = need_sort, strict
        self._kvcache = kvcache
        options = {"need_sort": need_sort, "strict": strict, "newest_first": newest_first}
        self._free = _free_pages(size // page_size, page_size, self.device, options)

    def get_kvcache(self) -> object:
        """The pool that was given to the constructor."""
        return self._kvcache

    def available_size(self) -> int:
        """Token slots that can be allocated; waits for segment frees it has not counted."""
        return self._free.available() * self.page_size

    def get_all_free_pages(self) -> Tensor:
        """The ids of all free pages, in no promised order, for tests of the accounts."""
        return self._free.pages()

    def pages_on_device(self) -> DevicePages | None:
        """As `DeviceLender` says: a class that lends otherwise has none."""
        return self._free if isinstance(self._free, DevicePages) else None

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Take back consecutive tokens of a request; neither waits nor depends on values.

        :raises ValueError: when token `start_pos` does not begin a page.
        """
        if start_pos % self.page_size:
            raise ValueError(f"start_pos={start_pos}: must begin a page of {self.page_size} tokens")
        if free_index.shape[0]:
            self._free.free_segment(free_index)

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Take back several segments of one request.

        :raises ValueError: when two share a page, or one does not begin on one; none is freed.
        """
        for free_index, start_pos in page_disjoint(segments, self.page_size):
            self.free_segment(free_index, start_pos=start_pos)

    def free_mapped_pages(self, pages: Tensor, /) -> None:
        """Take back pages, `[n]` int64; 0 stands for none. Without a host sync unless strict."""
        if pages.shape[0]:
            self._free.free_pages(pages)

    def free_group_begin(self) -> None:
        """Hold freed slots back from now on.

        :raises RuntimeError: inside a group.
        """
        self._free.begin_group()

    def free_group_end(self) -> None:
        """Return what the group held back; nothing without a group."""
        self._free.end_group()

    def clear(self) -> None:
        """Own nothing, as when built; a group is over."""
        self._free.clear()

    def _pages_for(self, need_size: int) -> int:
        if need_size < 0 or need_size % self.page_size:
            raise ValueError(
                f"need_size={need_size}: must be a multiple of page_size={self.page_size}, "
                "not negative"
            )
        return need_size // self.page_size


def _free_pages(
    capacity: int, page_size: int, device: torch.device, options: dict[str, bool]
) -> DevicePages | HostPages:
    # Watched, it does on the host what it does on a device, for as long as it lives.
    if device.type == "cpu" and has_numpy and not is_watched():
        return HostPages(capacity, page_size, **options)
    return DevicePages(capacity, device, page_size, **options)


def page_disjoint(
    segments: Iterable[tuple[Tensor, int]], page_size: int
) -> list[tuple[Tensor, int]]:
    """The segments that are not empty, checked against each other.

    :raises ValueError: when two share a page, or one does not begin on one.
    """
    found = [(free_index, start) for free_index, start in segments if free_index.shape[0]]
    end = 0
    for free_index, start in sorted(found, key=lambda segment: segment[1]):
        if start % page_size or start < end:
            raise ValueError(
                f"segment at {start}: must begin a page of {page_size} tokens that no other "
                "segment is on; nothing was freed"
            )
        end = -(-(start + free_index.shape[0]) // page_size) * page_size
    return found


def _check_size(size: int, page_size: int) -> None:
    if page_size < 1:
        raise ValueError(f"page_size={page_size}: must be at least 1")
    if size < 1 or size % page_size:
        raise ValueError(
            f"size={size}: must be a positive multiple of page_size={page_size}; "
            f"round down to {size // page_size * page_size}"
        )
