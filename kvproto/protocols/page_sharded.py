"""Pages dealt out over the ranks of a group, each page kept once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from ._capability import Capability

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["PagePlacement", "PageShard", "PageSharded"]


@runtime_checkable
class PageShard(Capability, Protocol):
    """Which part of the pages is this rank's?"""

    @property
    def shard_rank(self) -> int:
        """This rank in the group."""
        ...

    @property
    def shard_size(self) -> int:
        """Ranks in the group, at least 2."""
        ...

    @property
    def page_size(self) -> int:
        """Token slots of a page, the unit that is dealt out."""
        ...


@runtime_checkable
class PagePlacement(Capability, Protocol):
    """Where does a logical token slot live?"""

    def local_mask(self, loc: Tensor, rank: int, /) -> Tensor:
        """bool, shaped like `loc`: which logical slots are kept on `rank`."""
        ...

    def local_index(self, loc: Tensor, /) -> Tensor:
        """The physical slots, on their owner, of logical slots; same shape."""
        ...


@runtime_checkable
class PageSharded(Capability, Protocol):
    """Does each rank of the group keep some of the pages, and gather the others to attend?

    Locations are logical: the group's slots together. A forward pass over a prefix gathers it
    into scratch rows, between `begin_shard_extend` and `end_shard_extend`; reads outside are
    the rank's own stripe.
    """

    @property
    def shard_spec(self) -> PageShard:
        """The sharding this pool was built for."""
        ...

    @property
    def placement(self) -> PagePlacement:
        """The rule from logical to physical slots."""
        ...

    def begin_shard_extend(
        self,
        req_to_token: Tensor,
        req_pool_indices: Tensor,
        prefix_lens_cpu: list[int],
        seq_lens_cpu: list[int],
        /,
    ) -> None:
        """Plan the gathers of a batch and start the first. Collective, in the same order on all.

        `req_to_token` is the request pool's table, `req_pool_indices` `[requests]` its rows, the
        lengths are the host's.
        """
        ...

    def end_shard_extend(self) -> None:
        """The batch is over, or was not one of these; legal without a begin."""
        ...

    def translate_loc_to_scratch(self, loc: Tensor, /) -> Tensor:
        """Scratch rows of logical slots, int64, same shape; valid for the batch in progress."""
        ...
