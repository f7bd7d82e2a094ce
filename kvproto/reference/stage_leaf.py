"""What every leaf says of the layers of its stage, and of where their rows are."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from kvproto.kernels import FP8_DTYPES
from kvproto.protocols import BufferRegion, LayerTransferCounter, buf_infos

from .layers import OwnedLayers

__all__ = ["StageLeaf"]


class StageLeaf(ABC):
    """Layers `start_layer .. end_layer - 1` and their token slots; it owns no tensor.

    A subclass allocates rows and says where they are; fp8 is stored as uint8.
    """

    # Declared, so that a capability check is settled on the class (see `kvproto.adopt`).
    size: int
    page_size: int
    dtype: torch.dtype
    store_dtype: torch.dtype
    device: torch.device
    cpu_copy_carries_mamba = False
    post_capture_active: bool = False
    """Rows have memory from the start: nothing is left to back once graphs are captured."""

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        device: str | torch.device,
        layers: OwnedLayers,
    ) -> None:
        self.size, self.page_size = size, page_size
        self.dtype, self.device = dtype, torch.device(device)
        self.store_dtype = torch.uint8 if dtype in FP8_DTYPES else dtype
        self._layers = layers
        self._counter: LayerTransferCounter | None = None

    @abstractmethod
    def _row_regions(self) -> tuple[BufferRegion, ...]:
        """Where the rows that attention reads are; empty for a stage without layers."""

    def _fenced(self, layer_id: int) -> int:
        """The local index of a layer that is about to be read, once it has arrived."""
        local = self._layers.local(layer_id)
        if self._counter is not None:
            self._counter.wait_until(local)
        return local

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

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """One region per kind of row; none for a stage without layers."""
        return self._row_regions()

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """All layers of one kind of row, then of the next; item length is one page's bytes."""
        return buf_infos(self._row_regions())

    def get_kv_layer_ids(self) -> list[int]:
        """The owned global ids, once per kind of row."""
        return [layer_id for region in self._row_regions() for layer_id in region.layer_ids]

    def maybe_get_custom_mem_pool(self) -> object | None:
        """None: the buffers come from torch's default allocator."""
        return None
