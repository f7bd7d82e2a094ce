"""The host tier of a pool, leaf or composite: a host pool for each way its pages are numbered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import torch

from kvproto.protocols import BufferRegion, HostLayout, Transferable

from ..manifests.manifest import IndexSpace
from ..manifests.regions import regions_of
from .capacity import HostCapacity
from .host_pool import DevicePool, HostPool
from .items import whole_items
from .layer_loads import LayerLoads, layer_loads
from .memory import OpenBytes, open_bytes
from .page_ids import PageIds, PageRuns

__all__ = ["HostTier", "StagePool", "TierPages"]

TierPages: TypeAlias = Mapping[IndexSpace, tuple[PageIds, PageIds]]
"""By space: pages of the device, and as many of the host pool of that space."""


class StagePool(DevicePool, Transferable, Protocol):
    """A pool of a pipeline stage, that exports its pages and says where they are."""

    @property
    def start_layer(self) -> int:
        """The first global layer id of the stage."""
        ...


@dataclass(frozen=True, slots=True)
class _Numbered:
    """The regions of a pool whose pages are numbered alike; it keeps the pool alive."""

    pool: StagePool
    regions: tuple[BufferRegion, ...]

    @property
    def device(self) -> torch.device | str:
        return self.pool.device

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return self.regions


class HostTier:
    """Host pools for every byte of a pool that is numbered by page, window page or state slot.

    `pools` has one by space: `full`, `window` of a window pair, `state` of a hybrid. Each has its
    own pages, and its `alloc` and `free`; layer ids are global. What is kept by request row (rings
    of tails, or of windows) is the request's, not a prefix's, and not here. `capacity` may be one
    for every space, or one for each.

    `loads` makes readers wait: `pool.register_layer_transfer_counter(tier.loads)`, and the same for
    the request table of a hybrid. Then a read door returns once its layer is loaded.

    :raises CapabilityError: for a pool that exports no pages or does not say where its bytes are.
    :raises ValueError: as `HostPool`, and for a space without a capacity.
    """

    def __init__(
        self,
        pool: StagePool,
        layout: HostLayout,
        capacity: HostCapacity | Mapping[IndexSpace, HostCapacity],
        *,
        open_bytes: OpenBytes = open_bytes,
    ) -> None:
        by_space: dict[IndexSpace, list[BufferRegion]] = {}
        told = tuple(regions_of(pool))
        for each in told:
            if each.space != "request":
                item = whole_items(each.region, each.pages_per_item)
                by_space.setdefault(each.space, []).append(item)
        self.pools: Mapping[IndexSpace, HostPool] = {
            space: HostPool(
                _Numbered(pool, tuple(regions)),
                layout,
                _capacity_of(space, capacity),
                open_bytes=open_bytes,
            )
            for space, regions in by_space.items()
        }
        self._start = pool.start_layer
        # Read doors wait for layers by request row too, which nothing is loaded of.
        held = [i for each in told for i in each.region.layer_ids]
        stage = max(held, default=self._start - 1) + 1 - self._start
        self.loads: LayerLoads = layer_loads(stage, torch.device(pool.device))

    @property
    def nbytes(self) -> int:
        """Bytes of host memory, of all spaces."""
        return sum(each.nbytes for each in self.pools.values())

    def backup(self, pages: TierPages) -> None:
        """`HostPool.backup` of each space; all lists are looked at before a byte is copied.

        :raises KeyError: for a space that is not here.
        """
        for space, runs in self._runs(pages).items():
            self.pools[space].backup_runs(runs)

    def restore(self, pages: TierPages) -> None:
        """`HostPool.restore` of each space, as `backup` otherwise."""
        for space, runs in self._runs(pages).items():
            self.pools[space].restore_runs(runs)

    def load(self, pages: TierPages) -> None:
        """Begin to restore layer by layer, in the order of the stage; `loads` knows how far it is.

        Until `loads.finish()` the host pages must stay allocated, and nobody may write the device
        pages; readers that `loads` was registered for wait for their layer.

        :raises KeyError, ValueError, IndexError: as `backup`; nothing is begun.
        """
        runs = self._runs(pages)
        self.loads.start(lambda position: self._load(self._start + position, runs))

    def load_layer(self, layer_id: int, pages: TierPages) -> None:
        """`HostPool.load_layer` by global id, of each space that has the layer; as `backup` else.

        A layer that no space has is legal: it keeps nothing.
        """
        self._load(layer_id, self._runs(pages))

    def _load(self, layer_id: int, runs: dict[IndexSpace, PageRuns]) -> None:
        for space, of_space in runs.items():
            if layer_id in self.pools[space].layer_ids:
                self.pools[space].load_runs(layer_id, of_space)

    def _runs(self, pages: TierPages) -> dict[IndexSpace, PageRuns]:
        for space in pages:
            if space not in self.pools:
                raise KeyError(f"no host pool '{space}', there are {', '.join(self.pools)}")
        return {space: self.pools[space].runs(*lists) for space, lists in pages.items()}


def _capacity_of(
    space: IndexSpace, capacity: HostCapacity | Mapping[IndexSpace, HostCapacity]
) -> HostCapacity:
    if isinstance(capacity, HostCapacity):
        return capacity
    if space not in capacity:
        raise ValueError(f"no HostCapacity of space '{space}', only of {', '.join(capacity)}")
    return capacity[space]
