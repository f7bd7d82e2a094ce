"""Pages whose layers lie together, so that a page is one run of bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PageEnvelope", "PageEnvelopeView"]


@runtime_checkable
class PageEnvelope(Capability, Protocol):
    """Is a page of all layers one envelope, that can be moved and zeroed as a whole?

    The pool may be a view of memory that it shares, in which an allocator of virtual ids owns the
    placement. Page 0 is the reserved one.
    """

    @property
    def requires_physical_write_loc(self) -> bool:
        """Whether writers must have translated locations; a location not marked so is refused."""
        ...

    def move_physical_pages(self, tgt_pages: Tensor, src_pages: Tensor, page_size: int, /) -> None:
        """Copy envelopes `src_pages[i]` to `tgt_pages[i]`: physical pages of `page_size` slots.

        Every layer and whatever else is in them goes along. The two sets are disjoint; empty is
        legal. Targets of 0 and below are dropped.

        :raises ValueError: for another page size than the envelope's.
        """
        ...

    def zero_physical_pages(self, phys_pages: Tensor, /) -> None:
        """Zero whole envelopes, when the allocator hands them out; empty is legal."""
        ...


@runtime_checkable
class PageEnvelopeView(PageEnvelope, Protocol):
    """Can the envelopes be seen as rows of one buffer, as a host tier copies them?"""

    @property
    def grow_direction(self) -> str:
        """From which end of the shared allocation the pool grows: "up" or "down"."""
        ...

    def get_page_envelope_buffer(self) -> Tensor:
        """uint8 `[pages, bytes of an envelope]`, indexed by physical page; an alias."""
        ...
