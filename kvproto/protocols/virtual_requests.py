"""What an allocator of virtual ids is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import device

__all__ = ["VirtualIdsRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualIdsRequest:
    """As many virtual ids as physical slots: `size`, in whole pages, reserved ones not counted.

    :raises ValueError: for a size that is not whole pages.
    """

    size: int
    page_size: int
    device: str | device

    def __post_init__(self) -> None:
        if self.page_size < 1 or self.size < self.page_size or self.size % self.page_size:
            raise ValueError(
                f"VirtualIdsRequest.size={self.size}: must be a positive multiple of "
                f"page_size={self.page_size}, which is at least 1"
            )
