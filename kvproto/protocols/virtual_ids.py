"""Ids that stay while the slot behind them moves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .allocator import SlotAllocator

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["VirtualIdAllocator"]


@runtime_checkable
class VirtualIdAllocator(SlotAllocator, Protocol):
    """Are the lent ids virtual, so that kernels must be given translated ones?

    Pages may be moved between two forward passes; a translation is valid for one.
    """

    @property
    def full_v2p_page_table(self) -> Tensor:
        """int64: virtual page -> physical page; 0 where unmapped."""
        ...

    @property
    def draft_virtual_id_space(self) -> int:
        """The largest virtual token id that a draft pool sharing these ids must be ready for."""
        ...

    @property
    def unified_buffer(self) -> object:
        """The allocation that all parts share."""
        ...

    def translate_kv_loc(self, loc: Tensor, /, *, out: Tensor | None = None) -> Tensor:
        """Physical token slots of virtual ids: same shape, int64.

        Ids that are unmapped, negative or out of range give 0. `out` receives the result, at an
        address that stays: required inside a captured graph. Fixed-shape, without a host sync.
        """
        ...

    def translate_write_loc(
        self, loc: Tensor, /, *, out: Tensor | None = None, out_width: int | None = None
    ) -> Tensor:
        """Physical token slots to write to, of the ids `alloc_extend` and `alloc_decode` return.

        As `translate_kv_loc`; with decode context parallelism, ids of other ranks give 0.
        `out_width` pads the result with zeros to that length.
        """
        ...
