"""What leaves of planes share: layers, moves, host copies, and where every byte is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from kvproto.reference.host_rows import HostRows
from kvproto.reference.layers import OwnedLayers
from kvproto.reference.row_stores import TiledRows, move_all
from kvproto.reference.stage_leaf import StageLeaf

from .host_copies import check_copy, copy_to_host, load_from_host
from .kept import check_rows_element
from .locations import bounded
from .planes import Order, PlaneShape

__all__ = ["PlaneLeaf"]

_GIB = 1 << 30


class PlaneLeaf(StageLeaf):
    """Planes of the same token slots and layers; a leaf names them, and has the doors.

    Moves and host copies are torch operations on every device; writes are the leaf's. A location
    past the last slot is refused in host memory; on a device its row is dropped, or read as zeros.
    """

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        layers: OwnedLayers,
    ) -> None:
        check_rows_element(dtype)
        super().__init__(size, page_size, dtype, device, layers)

    @abstractmethod
    def _planes(self) -> Sequence[Tensor]:
        """The planes, `[layers, ...]`, in the order of the regions."""

    @abstractmethod
    def _stores(self) -> Sequence[TiledRows]:
        """The way to the rows of all layers of every plane, in that order."""

    @property
    def _pages(self) -> int:
        """Pages of a layer, the reserved one included."""
        return self.size // self.page_size + 1

    def _shape(self, width: int, order: Order = "nd", layers: int | None = None) -> PlaneShape:
        """That of a plane with a row of one head, in every layer or in so many."""
        count = self.layer_num if layers is None else layers
        return PlaneShape(count, self._pages, self.page_size, 1, width, order)

    def _bounded(self, loc: Tensor) -> Tensor:
        """As `locations.bounded`, of every plane."""
        return bounded(loc, self.size + self.page_size, self._planes()[0].device)

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

    def check_cpu_copy(
        self, kv_cache_cpu: HostRows, indices: Tensor, /, *, req_pool_index: int | None = None
    ) -> None:
        """Nothing, or what `load_cpu_copy` raises."""
        at, regions = self._bounded(indices), self.buffer_regions()
        check_copy(self._stores(), kv_cache_cpu, at, regions)

    def restore_reserved(self) -> None:
        """Zero slot 0 of every plane, after a memory saver resumed them."""
        for rows in self._stores():
            rows.clear_reserved()

    @property
    def mem_usage(self) -> float:
        """GiB of all planes."""
        return sum(plane.nbytes for plane in self._planes()) / _GIB
