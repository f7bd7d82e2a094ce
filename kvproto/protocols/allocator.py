"""Who owns which token slot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor, device

__all__ = ["SlotAllocator"]


@runtime_checkable
class SlotAllocator(Capability, Protocol):
    """Can the allocator lend token slots and take them back?

    A slot is free, held back by a free group, or owned: always exactly one of them. The slots
    of the first page are never handed out. What comes back is a set: freeing a slot that is
    free already, or one of the reserved page, never adds to the free ones.
    """

    @property
    def size(self) -> int:
        """Token slots that can be owned at once, whole pages; of a pair the smaller side."""
        ...

    @property
    def page_size(self) -> int:
        """Token slots that are lent and freed together, at least 1."""
        ...

    @property
    def device(self) -> device | str:
        """Where the returned slots are."""
        ...

    def get_kvcache(self) -> object:
        """The pool these slots are of."""
        ...

    def available_size(self) -> int:
        """Token slots that can still be allocated, at most `size`; of a pair the smaller side."""
        ...

    def alloc(self, need_size: int, /) -> Tensor | None:
        """`[need_size]` int64 slots, in whole pages; None when too few are free.

        Nothing changes then. `need_size` is a multiple of `page_size`; 0 gives an empty tensor.

        :raises ValueError: for a need that ends inside a page, or is negative; fewer slots are
            never returned.
        """
        ...

    def free(self, free_index: Tensor, /) -> None:
        """Take slots back, `[n]` int32 or int64, in any order; a page goes with any of its slots.

        The caller may overwrite the tensor at once, inside a free group too. What is free already
        or can never be owned is ignored, or refused by raising before anything is freed.
        """
        ...

    def free_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """Take back consecutive tokens of one request, of which the first is token `start_pos`.

        `start_pos` is a multiple of `page_size`; the last page goes back whole, even if the
        segment ends inside it. Fixed-shape, without a host sync.
        """
        ...

    def free_segments(self, segments: Iterable[tuple[Tensor, int]], /) -> None:
        """Take back several `(free_index, start_pos)` of one request, no two on a page."""
        ...

    def free_group_begin(self) -> None:
        """From now on hold freed slots back, to return them together. Groups do not nest."""
        ...

    def free_group_end(self) -> None:
        """Return what the group held back."""
        ...

    def clear(self) -> None:
        """Own nothing, as when built. No buffer of the pool is touched."""
        ...
