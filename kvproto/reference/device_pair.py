"""Slots of two spaces and which is whose peer, made at once where kernels do it in one launch."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from torch import Tensor

from kvproto.kernels import alloc_decode_pair, alloc_extend_pair, alloc_pages_pair
from kvproto.kernels.triton_devices import served_by_triton
from kvproto.protocols import Capability, SlotAllocator

from .device_pages import DevicePages

__all__ = ["DeviceLender", "DevicePair", "device_pair"]


@runtime_checkable
class DeviceLender(Capability, Protocol):
    """May whoever pairs the allocator draw its pages, and make the slots of them?

    Then `alloc`, `alloc_extend` and `alloc_decode` are nothing but what `DevicePages` does.
    """

    def pages_on_device(self) -> DevicePages | None:
        """Its pages; None where it makes its slots itself, or in host memory."""
        ...


class DevicePair:
    """What `MappedPair` lends, of allocators of which both have the pages that are asked for."""

    def __init__(self, first: DevicePages, second: DevicePages, table: Tensor) -> None:
        self._first, self._second, self._table = first, second, table
        self._page_size = first.page_size

    def lend(self, n: int) -> Tensor:
        """All slots of `n` pages."""
        pages = _had(self._first.take(n)), _had(self._second.take(n))
        return alloc_pages_pair(*pages, self._table, self._page_size)

    def extend(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
    ) -> Tensor:
        """Slots that continue each request.

        :raises ValueError: as `DevicePages.extend`; nothing has changed.
        """
        lens = prefix_lens, prefix_lens_cpu, seq_lens, seq_lens_cpu, last_loc, extend_num_tokens
        first = _had(self._first.pages_to_extend(*lens))
        second = _had(self._second.pages_to_extend(*lens))
        pages, size = (first, second, self._table), self._page_size
        return alloc_extend_pair(prefix_lens, seq_lens, last_loc, *pages, size, extend_num_tokens)

    def decode(self, seq_lens: Tensor, seq_lens_cpu: Tensor, last_loc: Tensor) -> Tensor:
        """A slot for the last token of each request.

        :raises ValueError: as `DevicePages.decode`; nothing has changed.
        """
        lens = seq_lens, seq_lens_cpu, last_loc
        first = _had(self._first.pages_to_decode(*lens))
        second = _had(self._second.pages_to_decode(*lens))
        return alloc_decode_pair(seq_lens, last_loc, first, second, self._table, self._page_size)


def device_pair(first: SlotAllocator, second: SlotAllocator, table: Tensor) -> DevicePair | None:
    """None unless a kernel serves the table's device and both may be drawn from."""
    if not served_by_triton(table):
        return None
    drawn = [
        part.pages_on_device() if isinstance(part, DeviceLender) else None
        for part in (first, second)
    ]
    match drawn:
        case [DevicePages() as one, DevicePages() as other]:
            return DevicePair(one, other, table)
        case _:
            return None


def _had(pages: Tensor | None) -> Tensor:
    """What both allocators have, as they said before.

    :raises RuntimeError: where one has not.
    """
    if pages is None:
        raise RuntimeError("an allocator of the pair had fewer pages than it said")
    return pages
