"""What Acme's leaves have in common: the layers of a stage, kept in records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kvproto.protocols import (
    BufferRegion,
    DSALeafRequest,
    LayerTransferCounter,
    MHALeafRequest,
    MLALeafRequest,
    WriteLocation,
    buf_infos,
)

from .records import Records, Row
from .rows import load_rows, move_rows, store_rows

__all__ = ["AcmeLeaf", "locations"]

_GIB = 1 << 30


def locations(loc_info: Tensor | WriteLocation) -> Tensor:
    """The locations that a write door was given, bare or in the object that carries them."""
    return loc_info if isinstance(loc_info, Tensor) else loc_info.loc


class AcmeLeaf:
    """Rows of layers `start_layer .. end_layer - 1`; its own base class and nobody else's.

    The annotations let kvproto settle what the class can do without looking at an instance.
    """

    size: int
    page_size: int
    dtype: torch.dtype
    store_dtype: torch.dtype
    device: torch.device
    layer_num: int
    start_layer: int
    end_layer: int
    cpu_copy_carries_mamba = False

    def __init__(
        self, request: MHALeafRequest | MLALeafRequest | DSALeafRequest, rows: Sequence[Row]
    ) -> None:
        self.size, self.page_size = request.size, request.page_size
        self.dtype = self.store_dtype = request.dtype
        self.device = torch.device(request.device)
        self.start_layer, self.end_layer = request.start_layer, request.end_layer
        self.layer_num = request.layer_num
        layer_ids = range(self.start_layer, self.end_layer)
        self._records = Records(self.size, self.page_size, layer_ids, rows, self.dtype, self.device)
        self._counter: LayerTransferCounter | None = None

    def _local(self, layer_id: int) -> int:
        if not self.start_layer <= layer_id < self.end_layer:
            raise ValueError(f"layer {layer_id} is not of {self.start_layer}..{self.end_layer - 1}")
        return layer_id - self.start_layer

    def _loaded(self, layer_id: int) -> int:
        """The local id of a layer that is about to be read, once the host tier has brought it."""
        local = self._local(layer_id)
        if self._counter is not None:
            self._counter.wait_until(local)
        return local

    def register_layer_transfer_counter(self, counter: LayerTransferCounter, /) -> None:
        """Read doors wait from now on."""
        self._counter = counter

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """One copy a token, of its whole record."""
        move_rows(self._records.data, tgt_loc, src_loc)

    def get_cpu_copy(
        self,
        indices: Tensor,
        /,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> list[Tensor]:
        """The records of these tokens."""
        return [load_rows(self._records.data, indices).cpu()]

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        /,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Records back, to these slots."""
        store_rows([self._records.data], indices, [kv_cache_cpu[0].to(self.device)])

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """One region: its pages are runs of records."""
        return self._records.regions()

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """One entry, of which an item is a page of all layers."""
        return buf_infos(self._records.regions())

    def maybe_get_custom_mem_pool(self) -> None:
        """The records are torch's."""
        return

    @property
    def mem_usage(self) -> float:
        """GiB."""
        return self._nbytes / _GIB

    @property
    def _nbytes(self) -> int:
        return self._records.data.nbytes
