"""Sparse attention whose device holds only part of the tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["HiSparse"]


@runtime_checkable
class HiSparse(Capability, Protocol):
    """Can the pool tell where on the device a token lives, while most live on the host?

    Three spaces: full token slots; compressed slots, one per kept token; device slots, which
    the rows are indexed by. Readers and writers are given slots of the first two.
    """

    @property
    def full_to_hisparse_device_index_mapping(self) -> Tensor | None:
        """The table compressed slot -> device slot; 0 means not on the device.

        None until an allocator registered it. Pools that only create the attribute then are not
        `HiSparse` before: assign None when constructing.
        """
        ...

    def register_mapping(self, full_to_hisparse_device_index_mapping: Tensor, /) -> None:
        """Install the allocator's table; called once, by the allocator, which goes on writing."""
        ...

    def translate_loc_to_hisparse_device(self, indices: Tensor, /) -> Tensor:
        """Device slots of compressed slots: same shape, an integer dtype the pool fixes.

        0 gives 0. Negative padding stays negative, or gives 0; never another slot. Fixed-shape.
        """
        ...

    def translate_loc_from_full_to_hisparse_device(self, full_indices: Tensor, /) -> Tensor:
        """Device slots of full slots: `translate_loc_from_full_to_compressed`, then the table."""
        ...

    def translate_loc_from_full_to_compressed(self, full_indices: Tensor, /) -> Tensor:
        """Compressed slots of full slots.

        The same tensor where every token is kept; shorter where one of several is.
        """
        ...
