"""Slots of two spaces, lent and freed in step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from .allocator import SlotAllocator

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SWAAllocator"]


@runtime_checkable
class SWAAllocator(SlotAllocator, Protocol):
    """Can the allocator free a token's window slot before its full one?

    The ids it lends are full locations; each has a window peer until the peer is freed. What
    continues on a page whose peer was freed has none. All paths skip locations without a peer, so
    location 0 of the window space is never freed.

    Where every layer is windowed the two spaces may be one: a lent slot is its own peer, it is
    free once its peer is, and a token that gets no peer gets location 0. Where window layers keep
    a ring per request no location has a peer: nothing of the window is lent, `size_swa` counts the
    rings of all rows, `swa_available_size` those of free rows, and `available_size` the full side.
    """

    @property
    def size_full(self) -> int:
        """Token slots of the full space."""
        ...

    @property
    def size_swa(self) -> int:
        """Token slots of the window space."""
        ...

    def full_available_size(self) -> int:
        """Full slots that can still be allocated."""
        ...

    def swa_available_size(self) -> int:
        """Window slots that can still be allocated."""
        ...

    def translate_loc_from_full_to_swa(self, kv_indices: Tensor, /) -> Tensor:
        """Window locations of full locations, as in `SWACapable`."""
        ...

    def alloc_extend_swa_tail(
        self,
        prefix_lens: Tensor,
        prefix_lens_cpu: Tensor,
        seq_lens: Tensor,
        seq_lens_cpu: Tensor,
        last_loc: Tensor,
        extend_num_tokens: int,
        swa_tail_len: int,
    ) -> Tensor | None:
        """As `PagedAllocator.alloc_extend` for one request, with window peers for its tail only.

        The last `swa_tail_len` tokens get peers; every other returned slot is unmapped, also
        where the tail is empty. None, with neither space changed, when either has too few.
        """
        ...

    def free_swa(self, free_index: Tensor, /) -> None:
        """Free the window peers of full locations, in any order, and clear their mapping.

        A page is freed as a whole: its other tokens lose their peers with it.
        """
        ...

    def free_swa_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """`free_swa` of consecutive tokens of one request, as in `free_segment`. Fixed-shape."""
        ...

    def free_full(self, free_index: Tensor, /) -> None:
        """Free full slots whose window peers were freed before; peers that are left go along."""
        ...

    def free_full_segment(self, free_index: Tensor, /, *, start_pos: int) -> None:
        """`free_full` of consecutive tokens of one request, as in `free_segment`."""
        ...
