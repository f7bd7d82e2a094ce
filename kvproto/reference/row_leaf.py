"""What leaves of token rows share, whatever a row holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from kvproto.kernels import FP8_DTYPES, check_locations
from kvproto.protocols import (
    AttentionLayer,
    BufferRegion,
    LayerTransferCounter,
    WriteLocation,
    buf_infos,
)

from .host_rows import (
    HostRows,
    check_meaning,
    copy_rows_to_host,
    load_rows_from_host,
    meaning_of,
)
from .layers import OwnedLayers
from .row_stores import RowStore, SlotRows, move_all

__all__ = ["RowLeaf", "locations_of", "written_layer"]

_GIB = 1 << 30


class RowLeaf(ABC):
    """One tensor per layer and kind of row, in the store dtype: `[size + page_size, ...]`.

    A subclass allocates them, names them (`_row_buffers`, `_row_regions`) and has the write and
    read doors; moves, host copies and transfer descriptors follow from the names. Where rows lie
    otherwise in the tensors, `_row_stores` says how.
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
        self.size, self.page_size = size, page_size
        self.dtype, self.device = dtype, torch.device(device)
        self.store_dtype = torch.uint8 if dtype in FP8_DTYPES else dtype
        self._layers = layers
        self._counter: LayerTransferCounter | None = None

    @abstractmethod
    def _row_buffers(self) -> list[Tensor]:
        """Every tensor with a row per token slot, in the order of the transfer descriptors."""

    def _row_stores(self) -> Sequence[RowStore]:
        """Those tensors, and where a slot's row is in each."""
        return [SlotRows(buffer) for buffer in self._row_buffers()]

    @abstractmethod
    def _row_regions(self) -> tuple[BufferRegion, ...]:
        """Where those rows are; empty for a stage without layers."""

    @abstractmethod
    def get_kv_size_bytes(self) -> tuple[int, int] | int:
        """Bytes of all buffers, the reserved page included."""

    def _zeros(self, *row: int) -> list[Tensor]:
        shape = (self.size + self.page_size, *row)
        return [
            torch.zeros(shape, dtype=self.store_dtype, device=self.device)
            for _ in range(self.layer_num)
        ]

    def _fenced(self, layer_id: int) -> int:
        """The local index of a layer that is about to be read, once it has arrived."""
        local = self._layers.local(layer_id)
        if self._counter is not None:
            self._counter.wait_until(local)
        return local

    def _check(self, *locations: Tensor) -> None:
        for loc in locations:
            check_locations(loc, self.size + self.page_size)

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

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Copy tokens from slot to slot in every layer; all sources are read first."""
        self._check(tgt_loc, src_loc)
        move_all(self._row_stores(), tgt_loc, src_loc)

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """All layers of one kind of row, then of the next; item length is one page's bytes."""
        return buf_infos(self._row_regions())

    def get_kv_layer_ids(self) -> list[int]:
        """The owned global ids, once per kind of row."""
        return [layer_id for region in self._row_regions() for layer_id in region.layer_ids]

    def maybe_get_custom_mem_pool(self) -> object | None:
        """None: the buffers come from torch's default allocator."""
        return None

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """One region per kind of row; none for a stage without layers."""
        return self._row_regions()

    def restore_reserved(self) -> None:
        """Zero slot 0 of every row buffer, after a memory saver resumed them."""
        for rows in self._row_stores():
            rows.clear_reserved()

    @property
    def mem_usage(self) -> float:
        """GiB of all buffers."""
        size = self.get_kv_size_bytes()
        return (size if isinstance(size, int) else sum(size)) / _GIB

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> HostRows:
        """The rows of the given locations, of every layer, on the host; bit-exact."""
        self._check(indices)
        rows = copy_rows_to_host(self._row_stores(), indices)
        return replace(rows, meaning=meaning_of(self.buffer_regions()))

    def load_cpu_copy(
        self,
        kv_cache_cpu: HostRows,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Write a copy back, to these locations; as many as it was made from.

        :raises ValueError: for a copy of other rows, in number, shape or what their bytes mean;
            nothing is written.
        """
        self._check(indices)
        check_meaning(kv_cache_cpu, self.buffer_regions())
        load_rows_from_host(self._row_stores(), kv_cache_cpu, indices)

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        """Read doors wait on it from now on, by local layer index."""
        self._counter = layer_transfer_counter


def locations_of(loc_info: Tensor | WriteLocation) -> Tensor:
    """The locations themselves: the tensor, or the one that the object carries."""
    return loc_info if isinstance(loc_info, Tensor) else loc_info.loc


def written_layer(layer: AttentionLayer | None, override: int | None) -> int:
    """The global id that a write is for; the override goes first, 0 included.

    :raises ValueError: where neither names a layer.
    """
    if override is not None:
        return override
    if layer is None:
        raise ValueError("set_kv_buffer: layer is None and layer_id_override was not given")
    return layer.layer_id
