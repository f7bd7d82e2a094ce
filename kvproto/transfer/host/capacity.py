"""How much host memory to keep: in pages, tokens or bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["HostCapacity"]


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """An amount of pages, of tokens, or of bytes of all layers together.

    :raises ValueError: for less than one, or another unit.
    """

    amount: int
    unit: Literal["pages", "tokens", "bytes"]

    def __post_init__(self) -> None:
        if self.unit not in ("pages", "tokens", "bytes"):
            raise ValueError(f"HostCapacity.unit={self.unit!r}: must be pages, tokens or bytes")
        if self.amount < 1:
            raise ValueError(f"HostCapacity.amount={self.amount}: must be at least 1")

    def pages(self, page_size: int, page_bytes: int) -> int:
        """Whole pages of `page_size` tokens and `page_bytes` bytes that it has room for.

        :raises ValueError: where that is not one, or pages have no bytes to be counted by.
        """
        match self.unit:
            case "pages":
                return self.amount
            case "tokens":
                each = page_size
            case "bytes":
                each = page_bytes
        pages = self.amount // each if each else 0
        if not pages:
            raise ValueError(
                f"{self.amount} {self.unit} of host memory hold no page of {each}; ask for more"
            )
        return pages
