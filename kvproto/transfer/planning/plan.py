"""What goes where, page by page: the outcome of a negotiation, from which addresses follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from kvproto.protocols import BufferRegion

from ..manifests.manifest import IndexSpace, PoolManifest, PoolName

__all__ = ["Direction", "Pieces", "PlannedEnd", "RegionPair", "SpacePages", "TransferPlan"]

Direction: TypeAlias = Literal["write", "read"]
"""Who receives: the remote side of a write, the local side of a read."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Runs of bytes of a page: where each begins at either end, from the page's start, and ends."""

    local: tuple[int, ...]
    remote: tuple[int, ...]
    nbytes: tuple[int, ...]

    @property
    def total(self) -> int:
        """Bytes that travel of a page."""
        return sum(self.nbytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEnd:
    """A region at one end, in pages of the plan: one base for each of the pair's layers.

    The base of a region whose pages hold all layers stands there once, or once for each layer.
    `region` is as its pool declares it; `page_count` and `page_stride` count pages of the plan.
    """

    region: BufferRegion
    bases: tuple[int, ...]
    page_count: int
    page_stride: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionPair:
    """The same bytes of some layers at both ends.

    `pieces` are those of every layer's page. Where a page holds all layers and goes as a whole,
    `layer_pieces` has those of each layer alone, for who asks for one; else it is empty. What
    `is_converted` goes whole to staging memory and from there, by a kernel, into its own place.
    """

    pool: PoolName
    space: IndexSpace
    name: str
    layer_ids: tuple[int, ...]
    local: PlannedEnd
    remote: PlannedEnd
    pieces: Pieces
    layer_pieces: tuple[Pieces, ...] = ()
    is_converted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SpacePages:
    """How the pages of a space are counted: in tokens, at both ends and in the plan.

    The plan counts in the smaller page; a page of the other end is `local // page_size` or `remote
    // page_size` of these. Page 0 of either end is reserved, whatever that makes in the plan.
    """

    local: int
    remote: int

    @property
    def page_size(self) -> int:
        """Tokens of a page of the plan."""
        return min(self.local, self.remote)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlan:
    """What two manifests agreed on. `direction` says whose pages are written.

    Layers that only one side has are in `local_only` and `remote_only`, by pool: another stage's.
    """

    local: PoolManifest
    remote: PoolManifest
    direction: Direction
    spaces: dict[IndexSpace, SpacePages]
    pairs: tuple[RegionPair, ...]
    local_only: dict[PoolName, tuple[int, ...]]
    remote_only: dict[PoolName, tuple[int, ...]]

    def layer_ids(self, pool: PoolName = "target") -> tuple[int, ...]:
        """The global ids of the layers that travel, ascending."""
        return tuple(sorted({i for p in self.pairs if p.pool == pool for i in p.layer_ids}))

    def page_bytes(self, space: IndexSpace) -> int:
        """Bytes that travel for one page of the plan, in all layers."""
        return sum(p.pieces.total * len(p.local.bases) for p in self.pairs if p.space == space)
