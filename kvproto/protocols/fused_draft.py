"""A draft model's rows inside its target's pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from .allocator import SlotAllocator

__all__ = ["FusedDraft"]


@runtime_checkable
class FusedDraft(Capability, Protocol):
    """Is the pool a view into the pages of a target pool, placed by the target's allocator?

    Such a pool owns nothing to transfer, copy or move: the target's pages carry it.
    """

    @property
    def host_allocator(self) -> SlotAllocator:
        """The target's allocator, whose ids this pool is addressed by."""
        ...
