"""What leaves of token rows share, whatever a row holds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from kvproto.kernels import check_locations
from kvproto.protocols import (
    AttentionLayer,
    WriteLocation,
)

from .host_rows import (
    HostRows,
    check_meaning,
    check_rows,
    copy_rows_to_host,
    load_rows_from_host,
    meaning_of,
)
from .layer_buffers import zeros_by_layer
from .row_stores import RowStore, SlotRows, move_all
from .stage_leaf import StageLeaf

__all__ = ["RowLeaf", "locations_of", "written_layer"]

_GIB = 1 << 30


class RowLeaf(StageLeaf):
    """One tensor per layer and kind of row, in the store dtype: `[size + page_size, ...]`.

    A subclass allocates them, names them (`_row_buffers`, `_row_regions`) and has the write and
    read doors; moves, host copies and transfer descriptors follow from the names. Where rows lie
    otherwise in the tensors, `_row_stores` says how.
    """

    @abstractmethod
    def _row_buffers(self) -> list[Tensor]:
        """Every tensor with a row per token slot, in the order of the transfer descriptors."""

    def _row_stores(self) -> Sequence[RowStore]:
        """Those tensors, and where a slot's row is in each."""
        return [SlotRows(buffer) for buffer in self._row_buffers()]

    @abstractmethod
    def get_kv_size_bytes(self) -> tuple[int, int] | int:
        """Bytes of all buffers, the reserved page included."""

    def _zeros(self, *row: int) -> list[Tensor]:
        shape = (self.size + self.page_size, *row)
        return zeros_by_layer(self.layer_num, shape, self.store_dtype, self.device)

    def _check(self, *locations: Tensor) -> None:
        for loc in locations:
            check_locations(loc, self.size + self.page_size)

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Copy tokens from slot to slot in every layer; all sources are read first."""
        self._check(tgt_loc, src_loc)
        move_all(self._row_stores(), tgt_loc, src_loc)

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
        self.check_cpu_copy(kv_cache_cpu, indices, req_pool_index=req_pool_index)
        load_rows_from_host(self._row_stores(), kv_cache_cpu, indices)

    def check_cpu_copy(
        self, kv_cache_cpu: HostRows, indices: Tensor, /, *, req_pool_index: int | None = None
    ) -> None:
        """Nothing, or what `load_cpu_copy` raises."""
        self._check(indices)
        check_meaning(kv_cache_cpu, self.buffer_regions())
        check_rows(self._row_stores(), kv_cache_cpu, indices)


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
