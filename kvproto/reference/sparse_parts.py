"""Pools of the same token slots, moved, copied and exported as one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from torch import Tensor

from kvproto.protocols import BufferRegion, Field, LayerTransferCounter, buf_infos
from kvproto.protocols.layout import FieldName

from .host_rows import HostRows
from .sides import SideCounter

__all__ = ["BufInfos", "Part", "PartPool", "PartedCopy", "PartedRows", "in_one_by_name"]

BufInfos = tuple[list[int], list[int], list[int]]

_GIB = 1 << 30
_INDEX_NAMES: Mapping[FieldName, FieldName] = {"key": "index_key", "value": "index_value"}


class PartPool(Protocol):
    """What is asked of a pool that is a part: rows of keys, or of keys and values."""

    k_buffer: list[Tensor]

    def buffer_regions(self) -> tuple[BufferRegion, ...]: ...
    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None: ...
    def restore_reserved(self) -> None: ...
    def get_cpu_copy(self, indices: Tensor) -> HostRows: ...
    def load_cpu_copy(self, kv_cache_cpu: HostRows, indices: Tensor) -> None: ...
    def check_cpu_copy(self, kv_cache_cpu: HostRows, indices: Tensor, /) -> None: ...
    def get_kv_layer_ids(self) -> list[int]: ...
    def get_kv_size_bytes(self) -> tuple[int, int]: ...
    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Part:
    """A pool and the global ids of its layers, in its order; `is_index` of index rows."""

    pool: PartPool
    layer_ids: tuple[int, ...]
    is_index: bool

    def regions(self) -> tuple[BufferRegion, ...]:
        """The pool's regions under global ids and by what the rows are for."""
        return tuple(
            replace(region, layer_ids=self.layer_ids, fields=self._named(region))
            for region in self.pool.buffer_regions()
        )

    def _named(self, region: BufferRegion) -> tuple[Field, ...]:
        if not self.is_index:
            return region.fields
        return tuple(replace(field, name=_INDEX_NAMES[field.name]) for field in region.fields)


@dataclass(frozen=True, slots=True)
class PartedCopy:
    """The copies of the parts, in their order."""

    parts: tuple[HostRows, ...]


class PartedRows(ABC):
    """What follows from the parts: moves, host copies, regions and sizes.

    A subclass names them, the main rows first.
    """

    cpu_copy_carries_mamba = False
    start_layer: int
    end_layer: int

    @abstractmethod
    def _parts(self) -> tuple[Part, ...]:
        """Every pool that holds rows."""

    def register_layer_transfer_counter(
        self, layer_transfer_counter: LayerTransferCounter, /
    ) -> None:
        """Every read door waits from now on, those of the parts too, by the layer in the stage."""
        for part in self._parts():
            thresholds = tuple(layer_id - self.start_layer for layer_id in part.layer_ids)
            part.pool.register_layer_transfer_counter(
                SideCounter(layer_transfer_counter, thresholds)
            )

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Copy tokens from slot to slot, index rows too; all sources are read first."""
        for part in self._parts():
            part.pool.move_kv_cache(tgt_loc, src_loc)

    def restore_reserved(self) -> None:
        """Zero slot 0 of the main and of the index rows, after a memory saver resumed them."""
        for part in self._parts():
            part.pool.restore_reserved()

    def get_cpu_copy(
        self,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> PartedCopy:
        """The main and index rows of the given locations, of every layer, on the host."""
        return PartedCopy(tuple(part.pool.get_cpu_copy(indices) for part in self._parts()))

    def load_cpu_copy(
        self,
        kv_cache_cpu: PartedCopy,
        indices: Tensor,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """Write a copy back, to these locations; as many as it was made from.

        :raises ValueError: for a copy of other parts or of another number; nothing is written.
        """
        self.check_cpu_copy(kv_cache_cpu, indices, req_pool_index=req_pool_index)
        for part, rows in zip(self._parts(), kv_cache_cpu.parts, strict=True):
            part.pool.load_cpu_copy(rows, indices)

    def check_cpu_copy(
        self, kv_cache_cpu: PartedCopy, indices: Tensor, /, *, req_pool_index: int | None = None
    ) -> None:
        """Nothing, or what `load_cpu_copy` raises."""
        pools, copies = [part.pool for part in self._parts()], kv_cache_cpu.parts
        if len(copies) != len(pools):
            raise ValueError(f"the copy holds rows of {len(copies)} pools, there are {len(pools)}")
        for pool, rows in zip(pools, copies, strict=True):
            pool.check_cpu_copy(rows, indices)

    def get_contiguous_buf_infos(self) -> BufInfos:
        """The main rows by page, keys of all layers and then values; index rows are state."""
        return buf_infos(self._parts()[0].regions())

    def get_kv_layer_ids(self) -> list[int]:
        """The global layer id of each of those entries."""
        return [i for region in self._parts()[0].regions() for i in region.layer_ids]

    def maybe_get_custom_mem_pool(self) -> object | None:
        """None: the buffers come from torch's default allocator."""
        return None

    def get_state_buf_infos(self) -> BufInfos:
        """The index rows by KV page: keys of every layer, then values if any layer has some.

        A layer without keeps its place, with a length and an item length of 0.
        """
        columns: tuple[list[int], list[int], list[int]] = ([], [], [])
        for name in ("index_key", "index_value"):
            told = self._by_layer(name)
            for layer_id in range(self.start_layer, self.end_layer) if told else ():
                entry = told.get(layer_id, (0, 0, 0))
                for column, number in zip(columns, entry, strict=True):
                    column.append(number)
        return columns

    def _by_layer(self, name: FieldName) -> dict[int, tuple[int, int, int]]:
        told: dict[int, tuple[int, int, int]] = {}
        for region in self.buffer_regions():
            if region.fields[0].name == name:
                told |= zip(region.layer_ids, zip(*buf_infos((region,)), strict=True), strict=True)
        return told

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """The main keys and values, then index keys and index values, those that there are."""
        return in_one_by_name(self._parts())

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all key and of all value buffers, index rows and reserved pages included."""
        sizes = [part.pool.get_kv_size_bytes() for part in self._parts()]
        return sum(keys for keys, _ in sizes), sum(values for _, values in sizes)

    @property
    def mem_usage(self) -> float:
        """GiB of all buffers."""
        return sum(self.get_kv_size_bytes()) / _GIB


def in_one_by_name(parts: Sequence[Part]) -> tuple[BufferRegion, ...]:
    """A region of all layers for each kind of row; the parts have the same slots."""
    by_name: dict[FieldName, list[BufferRegion]] = {}
    for part in parts:
        for region in part.regions():
            by_name.setdefault(region.fields[0].name, []).append(region)
    order = ("key", "value", "index_key", "index_value")
    return tuple(_in_one(by_name[name]) for name in order if name in by_name)


def _in_one(regions: Sequence[BufferRegion]) -> BufferRegion:
    """Regions of the same rows as one, by layer: parts with index keys differ in nothing else."""
    pairs = [pair for r in regions for pair in zip(r.layer_ids, r.bases, strict=True)]
    layer_ids, bases = zip(*sorted(pairs), strict=True)
    return replace(regions[0], layer_ids=layer_ids, bases=bases)
