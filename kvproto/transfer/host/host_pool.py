"""The host tier of one device pool: pages that were backed up, and come back."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from kvproto.protocols import (
    Composite,
    DeclaresRegions,
    HostLayout,
    HostRegion,
    supports,
)

from .capacity import HostCapacity
from .memory import OpenBytes, host_memory, open_bytes
from .page_ids import HostPageIds, PageIds, PageRuns, check_device_pages, page_runs
from .page_views import device_bytes
from .region_pages import region_pages

__all__ = ["DevicePool", "HostPool"]


class DevicePool(DeclaresRegions, Protocol):
    """What a host tier can stand behind: a pool that says where its bytes are, and on what."""

    @property
    def device(self) -> torch.device | str:
        """Where the regions are."""
        ...


class HostPool:
    """Host memory for pages of a pool, in its own geometry: every per-token byte of every layer.

    Rows, scales and index keys alike, by the regions that the pool declares; those by request row
    (`BufferRegion.by_request`) are left out. Device pages are the pool's own, from 1 on; host pages
    are numbered from 0. What is in host memory of a region is where `host_regions` says.

    Whoever evicts frees: nothing here decides which pages to keep. The pool must outlive the tier,
    which holds it, and its buffers must stay where they are. On CUDA, copies go to the current
    stream, and whoever uses what was copied waits for that; elsewhere they are done on return.

    :raises ValueError: for a composite, whose leaves have page ids of their own, for regions of
        different page counts, for a capacity of no page, and for a device that cannot be read.
    """

    def __init__(
        self,
        pool: DevicePool,
        layout: HostLayout,
        capacity: HostCapacity,
        *,
        open_bytes: OpenBytes = open_bytes,
    ) -> None:
        if supports(pool, Composite):
            raise ValueError(
                f"{type(pool).__name__} is a composite, whose leaves have page ids of their own: "
                "make a HostTier of it"
            )
        self._pool, self.layout, device = pool, layout, torch.device(pool.device)
        regions = tuple(region for region in pool.buffer_regions() if not region.by_request)
        counts = {region.page_count for region in regions}
        if len(counts) > 1:
            raise ValueError(f"regions of {sorted(counts)} pages: one host page is one of each")
        self._device_pages = max(counts, default=1)
        self.page_size = max((region.page_size for region in regions), default=1)
        page_bytes = sum(len(region.bases) * region.bytes_per_page for region in regions)
        self._ids = HostPageIds(capacity.pages(self.page_size, page_bytes))
        self.host_regions = tuple(
            HostRegion(region=region, layout=layout, page_count=self.page_count)
            for region in regions
        )
        self._regions = [
            region_pages(
                mirror,
                [open_bytes(base, device_bytes(mirror.region), device) for base in bases],
                host_memory(mirror.nbytes, device),
            )
            for mirror in self.host_regions
            for bases in [mirror.region.bases]
        ]

    @property
    def page_count(self) -> int:
        """Pages there is room for."""
        return self._ids.count

    @property
    def nbytes(self) -> int:
        """Bytes of host memory."""
        return sum(mirror.nbytes for mirror in self.host_regions)

    @property
    def pinned(self) -> bool:
        """Whether the memory is pinned, as where torch pins for it; plain is copied slower."""
        return any(memory.is_pinned() for memory in self.memory)

    @property
    def layer_ids(self) -> tuple[int, ...]:
        """The pool's own layer ids that have rows, in order."""
        held = {i for mirror in self.host_regions for i in mirror.region.layer_ids}
        return tuple(sorted(held))

    @property
    def memory(self) -> tuple[Tensor, ...]:
        """The bytes, uint8, of each of `host_regions`; aliases."""
        return tuple(pages.memory for pages in self._regions)

    def available_size(self) -> int:
        """Host pages that can be allocated."""
        return self._ids.available

    def alloc(self, need_size: int) -> Tensor | None:
        """`need_size` host pages, int64; None, with nothing changed, when too few are free."""
        return self._ids.take(need_size)

    def free(self, host_pages: PageIds) -> None:
        """Take host pages back: eviction. What was in them is lost.

        :raises ValueError: for a page that is free, or named twice; nothing changes.
        :raises IndexError: for a page that is not there; nothing changes.
        """
        self._ids.release(host_pages)

    def clear(self) -> None:
        """All host pages are free."""
        self._ids.clear()

    def backup(self, device_pages: PageIds, host_pages: PageIds) -> None:
        """Copy device page `device_pages[i]`, of all layers, to host page `host_pages[i]`.

        :raises ValueError: for lists of different lengths, for a page that is named twice, for
            device page 0, and for host pages that are free; nothing is copied.
        :raises IndexError: for pages that are not there; nothing is copied.
        """
        self.backup_runs(self.runs(device_pages, host_pages))

    def restore(self, device_pages: PageIds, host_pages: PageIds) -> None:
        """Copy host page `host_pages[i]`, of all layers, to device page `device_pages[i]`.

        Raises as `backup`.
        """
        self.restore_runs(self.runs(device_pages, host_pages))

    def load_layer(self, layer_id: int, device_pages: PageIds, host_pages: PageIds) -> None:
        """`restore` of one layer, by the pool's own id; of an envelope its rows alone.

        :raises ValueError: for a layer without rows here; else as `restore`.
        """
        self.load_runs(layer_id, self.runs(device_pages, host_pages))

    def runs(self, device_pages: PageIds, host_pages: PageIds) -> PageRuns:
        """The lists, looked at once for several copies; raises as `backup`."""
        device = check_device_pages(device_pages, self._device_pages)
        return page_runs(device, self._ids.owned(host_pages))

    def backup_runs(self, runs: PageRuns) -> None:
        """`backup` of what `runs` gave."""
        for pages in self._regions:
            pages.backup(runs)

    def restore_runs(self, runs: PageRuns) -> None:
        """`restore` of what `runs` gave."""
        for pages in self._regions:
            pages.restore(runs)

    def load_runs(self, layer_id: int, runs: PageRuns) -> None:
        """`load_layer` of what `runs` gave."""
        if layer_id not in self.layer_ids:
            raise ValueError(f"layer_id {layer_id} has no rows here, {list(self.layer_ids)} have")
        for pages in self._regions:
            if layer_id in pages.mirror.region.layer_ids:
                pages.load(layer_id, runs)
