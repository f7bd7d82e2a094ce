"""What an allocator of pages that ranks keep in turn is built from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import device

__all__ = ["ShardedAllocatorRequest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedAllocatorRequest:
    """Pages of `shard_size` ranks, each of which has `size_per_rank` slots in whole pages.

    The reserved page of each rank is not counted.

    :raises ValueError: for fewer than two ranks, or a size that is not whole pages.
    """

    size_per_rank: int
    page_size: int
    shard_size: int
    device: str | device
    need_sort: bool = False

    def __post_init__(self) -> None:
        if self.shard_size < 2:
            raise ValueError(f"ShardedAllocatorRequest.shard_size={self.shard_size}: at least 2")
        pages, rest = divmod(self.size_per_rank, max(self.page_size, 1))
        if self.page_size < 1 or pages < 1 or rest:
            raise ValueError(
                f"ShardedAllocatorRequest.size_per_rank={self.size_per_rank}: must be a positive "
                f"multiple of page_size={self.page_size}, which is at least 1"
            )

    @property
    def size(self) -> int:
        """Slots of the whole group."""
        return self.size_per_rank * self.shard_size
