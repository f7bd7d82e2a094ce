"""What window layers with a ring per request are built from: the pool, and its accounts."""

from __future__ import annotations

from dataclasses import dataclass

from .allocator_requests import RequestPoolRequest
from .composite_requests import SWAPoolRequest
from .requests import AllocatorRequest

__all__ = ["SWARingAllocatorRequest", "SWARingPoolRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SWARingPoolRequest:
    """A full leaf, and a window leaf that is one ring of `swa_req_ring_size` slots per request row.

    The window leaf of `pair` has the slots of all rings, that of the padding row 0 among them and
    its reserved page counted: `rows * swa_req_ring_size = pair.window.size + page_size`.

    :raises ValueError: for a ring that is not whole pages, or a window leaf not of whole rings.
    """

    pair: SWAPoolRequest
    swa_req_ring_size: int

    def __post_init__(self) -> None:
        window = self.pair.window
        _whole_pages(self, self.swa_req_ring_size, window.page_size)
        slots = window.size + window.page_size
        if slots % self.swa_req_ring_size or slots < 2 * self.swa_req_ring_size:
            raise ValueError(
                f"SWARingPoolRequest.pair.window.size={window.size}: with its reserved page it "
                f"must be whole rings of {self.swa_req_ring_size}, at least two"
            )

    @property
    def num_req_slots(self) -> int:
        """Rows that have a ring, row 0 among them."""
        window = self.pair.window
        return (window.size + window.page_size) // self.swa_req_ring_size


@dataclass(frozen=True, slots=True, kw_only=True)
class SWARingAllocatorRequest:
    """The accounts beside such a pool: `full` slots, and the request table whose `rows` have rings.

    :raises ValueError: for a ring below one slot.
    """

    full: AllocatorRequest
    rows: RequestPoolRequest
    swa_req_ring_size: int

    def __post_init__(self) -> None:
        _whole_pages(self, self.swa_req_ring_size, 1)

    @property
    def size(self) -> int:
        """Full slots, which are what is lent."""
        return self.full.size

    @property
    def page_size(self) -> int:
        """Full slots that are lent together."""
        return self.full.page_size


def _whole_pages(request: object, ring: object, page_size: int) -> None:
    if not isinstance(ring, int) or ring < 1 or ring % page_size:
        raise ValueError(
            f"{type(request).__name__}.swa_req_ring_size={ring!r}: must be a positive multiple of "
            f"page_size={page_size}"
        )
