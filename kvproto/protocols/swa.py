"""Sliding-window attention: a second, smaller location space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SWACapable"]


@runtime_checkable
class SWACapable(Capability, Protocol):
    """Can the pool tell where a token of the full space lives in the window space?

    The pool keeps window layers in a space of their own. A location of the full space has a
    peer there while its token is inside the window, and none afterwards.
    """

    @property
    def full_to_swa_index_mapping(self) -> Tensor | None:
        """The table full location -> window location, `[full locations + 1]`, or None.

        0 means no peer. None until an allocator registered its table, and for good on pools
        that translate without one: use `translate_loc_from_full_to_swa`, which both serve.
        """
        ...

    def register_mapping(self, full_to_swa_index_mapping: Tensor, /) -> None:
        """Install the allocator's table; the allocator calls it once and keeps writing to it."""
        ...

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        """Window locations of full locations; same shape, an integer dtype the pool fixes.

        0, and any location without a peer, gives 0 (the reserved slot). A negative location
        gives -1 or 0, never another slot. Fixed-shape and without a host sync: legal inside a
        captured graph. Not to be called before `register_mapping`, where the pool needs a table.

        :raises IndexError: on a CPU table, for locations outside the full space.
        """
        ...
