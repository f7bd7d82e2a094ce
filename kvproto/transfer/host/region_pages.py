"""The pages of one region at both ends, and how they are copied."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kvproto.kernels import gather_pages, scatter_pages
from kvproto.kernels.triton_devices import served_by_triton
from kvproto.protocols import HostRegion

from .page_copies import PageCopies, host_runs, page_copies
from .page_ids import PageRuns
from .page_views import held_by_layer, layer_views, page_views

__all__ = ["KernelPages", "RegionPages", "region_pages"]


class RegionPages:
    """Copies run by run: in host memory, and where no kernel serves.

    `buffers` are the device's bytes from each base on, `memory` the tier's bytes of the region.
    """

    def __init__(self, mirror: HostRegion, buffers: list[Tensor], memory: Tensor) -> None:
        self.mirror, self.memory, self._buffers = mirror, memory, buffers
        self._whole = page_copies(page_views(mirror, buffers, memory))
        self._layers: dict[int, Sequence[PageCopies]] = {}

    def backup(self, runs: PageRuns) -> None:
        """Pages of every layer to host memory."""
        for layers in self._whole:
            layers.to_host(runs)

    def restore(self, runs: PageRuns) -> None:
        """Pages of every layer to the device."""
        for layers in self._whole:
            layers.to_device(runs)

    def load(self, layer_id: int, runs: PageRuns) -> None:
        """Pages of one layer, which the region has, to the device; of an envelope its rows."""
        if layer_id not in self._layers:
            held = layer_views(self.mirror, layer_id, self._buffers, self.memory)
            self._layers[layer_id] = page_copies(held)
        for rows in self._layers[layer_id]:
            rows.to_device(runs)


class KernelPages(RegionPages):
    """Copies of all layers in one launch for each stretch of host pages.

    Kernels reach into the pinned memory; what they cannot, rows inside of envelopes, goes as above.
    """

    def __init__(self, mirror: HostRegion, buffers: list[Tensor], memory: Tensor) -> None:
        super().__init__(mirror, buffers, memory)
        self._held = held_by_layer(mirror, len(buffers), memory)
        region, rows = mirror.region, self._held.shape[2]
        shape = region.page_count * rows, self._held.shape[3]
        strides = region.page_stride // rows, 1
        self._rows = [buffer.as_strided(shape, strides) for buffer in buffers]

    def backup(self, runs: PageRuns) -> None:
        """As `RegionPages.backup`."""
        self._launch(gather_pages, slice(None), runs)

    def restore(self, runs: PageRuns) -> None:
        """As `RegionPages.restore`."""
        self._launch(scatter_pages, slice(None), runs)

    def load(self, layer_id: int, runs: PageRuns) -> None:
        """As `RegionPages.load`."""
        if self.mirror.region.is_envelope:
            super().load(layer_id, runs)
            return
        at = self.mirror.region.layer_ids.index(layer_id)
        self._launch(scatter_pages, slice(at, at + 1), runs)

    def _launch(
        self, copy: Callable[[list[Tensor], Tensor, Tensor], None], layers: slice, runs: PageRuns
    ) -> None:
        device = self._rows[0].device
        for first, pages in host_runs(runs):
            ids = torch.tensor(pages, dtype=torch.int64, device="cpu").to(device, non_blocking=True)
            copy(self._rows[layers], ids, self._held[layers, first : first + len(pages)])


def region_pages(mirror: HostRegion, buffers: list[Tensor], memory: Tensor) -> RegionPages:
    """By kernels where they serve the device, and reach the memory and every row."""
    gaps = mirror.region.page_stride != mirror.region.bytes_per_page
    reached = memory.is_pinned() and not (gaps and mirror.by_token)
    by_kernel = bool(buffers) and reached and served_by_triton(buffers[0])
    return (KernelPages if by_kernel else RegionPages)(mirror, buffers, memory)
