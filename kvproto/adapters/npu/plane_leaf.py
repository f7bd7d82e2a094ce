"""What leaves of planes share: layers, moves, host copies, and where every byte is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.kernels import FP8_DTYPES
from kvproto.protocols import BufferRegion, LayerTransferCounter, buf_infos
from kvproto.reference.host_rows import HostRows
from kvproto.reference.layers import OwnedLayers
from kvproto.reference.row_stores import TiledRows, move_all

from .host_copies import copy_to_host, load_from_host
from .kept import check_rows_element
from .locations import bounded
from .planes import Order, PlaneShape

__all__ = ["PlaneLeaf"]

_GIB = 1 << 30


class PlaneLeaf(ABC):
    """Planes of the same token slots and layers; a leaf names them, and has the doors.

    Moves and host copies are torch operations on every device; writes are the leaf's. A location
    past the last slot is refused in host memory; on a device its row is dropped, or read as zeros.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    page_size: int
    dtype: torch.dtype
    store_dtype: torch.dtype
    device: torch.device
    cpu_copy_carries_mamba = False

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        layers: OwnedLayers,
    ) -> None:
        check_rows_element(dtype)
        self.size, self.page_size = size, page_size
        self.dtype, self.device = dtype, torch.device(device)
        self.store_dtype = torch.uint8 if dtype in FP8_DTYPES else dtype
        self._layers = layers
        self._counter: LayerTransferCounter | None = None

    @abstractmethod
    def _planes(self) -> Sequence[Tensor]:
        """The planes, `[layers, ...]`, in the order of the regions."""

    @abstractmethod
    def _stores(self) -> Sequence[TiledRows]:
        """The way to the rows of all layers of every plane, in that order."""

    @abstractmethod
    def _row_regions(self) -> tuple[BufferRegion, ...]:
        """Those of the rows that attention reads; none for a stage without layers."""

    @property
    def _pages(self) -> int:
        """Pages of a layer, the reserved one included."""
        return self.size // self.page_size + 1

    def _shape(self, width: int, order: Order = "nd", layers: int | None = None) -> PlaneShape:
        """That of a plane with a row of one head, in every layer or in so many."""
        count = self.layer_num if layers is None else layers
        return PlaneShape(count, self._pages, self.page_size, 1, width, order)

    def _fenced(self, layer_id: int) -> int:
        """The local index of a layer that is about to be read, once it has arrived."""
        local = self._layers.local(layer_id)
        if self._counter is not None:
            self._counter.wait_until(local)
        return local

    def _bounded(self, loc: Tensor) -> Tensor:
        """As `locations.bounded`, of every plane."""
        return bounded(loc, self.size + self.page_size, self._planes()[0].device)

    @property
    def start_layer(self) -> int:
        """The first global layer id."""
        return self._layers.start

    @property
    def end_layer(self) -> int:
        """One past the last global layer id."""
        return self._layers.end

    @property
    def layer_num(self) -> int:
        """Layers owned."""
        return self._layers.count

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        """Read doors wait on it from now on, by local layer index."""
        self._counter = layer_transfer_counter

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Copy tokens from slot to slot in every layer of every plane; sources are read first."""
        move_all(self._stores(), self._bounded(tgt_loc), self._bounded(src_loc))

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> HostRows:
        """The rows of the given locations, of every layer, on the host; bit-exact."""
        return copy_to_host(self._stores(), self._bounded(indices), self.buffer_regions())

    def load_cpu_copy(
        self,
        kv_cache_cpu: HostRows,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Write a copy back, to these locations; as many as it was made from.

        :raises ValueError: for a copy of another number, or of rows that are not the leaf's.
        """
        at, regions = self._bounded(indices), self.buffer_regions()
        load_from_host(self._stores(), kv_cache_cpu, at, regions)

    def restore_reserved(self) -> None:
        """Zero slot 0 of every plane, after a memory saver resumed them."""
        for rows in self._stores():
            rows.clear_reserved()

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """One region for each plane that has rows."""
        return self._row_regions()

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """All layers of one plane, then of the next; item length is one page's bytes."""
        return buf_infos(self._row_regions())

    def get_kv_layer_ids(self) -> list[int]:
        """The global id of each of those entries."""
        return [i for region in self._row_regions() for i in region.layer_ids]

    def maybe_get_custom_mem_pool(self) -> object | None:
        """None: the planes come from torch's default allocator."""
        return None

    @property
    def mem_usage(self) -> float:
        """GiB of all planes."""
        return sum(plane.nbytes for plane in self._planes()) / _GIB
