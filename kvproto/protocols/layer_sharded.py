"""Layers dealt out over the ranks of a group, each row kept once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["LayerOwner", "LayerSharded"]


@runtime_checkable
class LayerSharded(Capability, Protocol):
    """Does each rank of the group keep some of the layers, and read the others from their owner?

    Reading a layer is collective: all ranks read the same layers in the same order.
    """

    @property
    def layer_shard_rank(self) -> int:
        """This rank in the group."""
        ...

    @property
    def layer_shard_size(self) -> int:
        """Ranks in the group, at least 2."""
        ...

    @property
    def layer_shard_start(self) -> int:
        """The first global layer id this rank owns; owned layers are contiguous."""
        ...

    def prefetch_kv_buffer(self, layer_id: int, /) -> None:
        """Start fetching a layer's rows from their owner; the next read of it waits for them.

        Collective. Legal for an owned layer, and repeatedly.
        """
        ...

    def get_broadcastable_index_k_with_scale_buffer(self, layer_id: int, /) -> Tensor:
        """The index pages of any layer of the stage, fetched from their owner. Collective.

        Scratch memory on the other ranks: valid until the next layer is fetched.
        """
        ...

    def invalidate_index_buffer_for_layer(self, layer_id: int, /) -> None:
        """Forget a fetched copy of the layer's index pages, because they are about to change."""
        ...


@runtime_checkable
class LayerOwner(LayerSharded, Protocol):
    """Can the pool say which layers it owns?"""

    def is_layer_owned(self, layer_id: int, /) -> bool:
        """Whether this rank keeps the rows of the global layer id."""
        ...
