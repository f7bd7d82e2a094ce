"""Pages lent in turn from the ranks of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .allocator import SlotAllocator

if TYPE_CHECKING:
    from torch import Tensor

    from .page_sharded import PageShard

__all__ = ["ShardedAllocator"]


@runtime_checkable
class ShardedAllocator(SlotAllocator, Protocol):
    """Does the allocator lend logical pages, each of which one rank of the group keeps?

    Logical page `p` is of class `p % shard_size`: the rank that owns it. A request's pages go
    round the classes, so `available_size` is what the class with the fewest free pages allows:
    as many pages of each. Pages `0 .. shard_size - 1`, the first of each rank, are never lent.
    All ranks of the group make the same calls and get the same ids.
    """

    @property
    def shard_size(self) -> int:
        """Ranks in the group, at least 2."""
        ...

    @property
    def shard_spec(self) -> PageShard | None:
        """The sharding of the pool these ids are of; None where there is no pool."""
        ...

    def alloc_cyclic(self, start_class: int, need_size: int) -> Tensor | None:
        """`[need_size]` slots in whole pages, the first of class `start_class % shard_size`.

        The others follow in turn. None, with nothing changed, where a class has too few.
        """
        ...

    def class_free_page_counts(self) -> list[int]:
        """Free pages of each class."""
        ...
