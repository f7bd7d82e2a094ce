"""Regions that travel beside the token pages."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from ._capability import Capability

__all__ = ["StateSliceable", "StateTransferable"]


@runtime_checkable
class StateTransferable(Capability, Protocol):
    """Does a transfer have to carry more than the pages `Transferable` exports?

    Recurrent state, a window leaf, indexer rows. What an item is indexed by (pages, window
    pages, request rows, state slots) is a fact of the pool: `PoolTraits.state_index_space`.
    """

    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """`(ptrs, lens, item_lens)`, one entry per region, in bytes.

        Item `i` of a region is the `item_len` bytes at `ptr + i * item_len`; every `len` is a
        multiple of its `item_len`. No byte is also in `get_contiguous_buf_infos`. A stage without
        state gives three empty lists. Where regions are per layer they are in local order, and a
        layer without rows (index keys it shares with an earlier layer) keeps its place with a
        length and an item length of 0, so that peers may pair regions by position.
        """
        ...


@runtime_checkable
class StateSliceable(Capability, Protocol):
    """Can a state item be cut for a peer that splits its heads over another number of ranks?

    Each list has one entry per state region, in the order the regions are exported, or is
    empty where items only travel whole.
    """

    def get_state_dim_per_tensor(self) -> list[int]:
        """Length of the axis that is split over ranks; 0 for a region every rank has whole."""
        ...

    def get_state_slice_outer_counts(self) -> list[int]:
        """Rows of an item before the split axis: 1 where the split axis comes first."""
        ...

    def get_state_conv_shard_groups(self) -> list[list[int] | None]:
        """Unsplit lengths of the blocks that are split one by one; None for one block."""
        ...
