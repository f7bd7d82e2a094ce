"""Read a pool's bytes without asking the pool to read them.

A law never checks a write through the pool's own read door. Where the pool declares its
regions, the oracle goes to the address of each element; what none of them holds it asks of the
vendor's `RowAccess`. Without that, and for parts of a token that `RowAccess` has no name for, it
falls back to the storage behind the read door's tensor and notes that in `fallback`, since a wrong
door then goes unseen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from kvproto.protocols import BufferRegion, DeclaresRegions, Field, KVPool

from .door_layouts import DoorForms, no_form
from .fallback import Fallback
from .memory import bytes_at, peek, poke
from .place import HOST
from .read_doors import DoorReader
from .row_access import AccessReader, RowAccess
from .stored_rows import Side, dequantised, side_by_side

__all__ = ["Oracle", "gather_field", "oracle_for", "peek", "poke", "regions_of"]

_ROW_FIELDS = {"key": ("key", "latent", "rope"), "value": ("value",)}


@dataclass(frozen=True, slots=True)
class Oracle:
    """Reads rows of a pool; `fallback` is told of each that a door had to show."""

    pool: KVPool
    regions: tuple[BufferRegion, ...] | None
    door_form: DoorForms = no_form
    row_access: RowAccess | None = None
    fallback: Fallback = field(default_factory=Fallback)

    def rows(self, side: Side, layer_id: int) -> Tensor:
        """A copy of all rows of a layer: `[slots, heads, width]`, in the stored meaning.

        The reserved page comes first. On latent pools a key row is both parts side by side, packed
        ones dequantised to float32; the value is its prefix and has no region of its own.
        """
        regions = self._holding(_ROW_FIELDS[side], layer_id)
        if not regions:
            return self._reader.rows(side, layer_id)
        return _rows(regions, side, layer_id, range(regions[0].page_count))

    def row(self, side: Side, layer_id: int, slot: int) -> Tensor:
        """One row of a layer, `[heads, width]`, without touching the others."""
        regions = self._holding(_ROW_FIELDS[side], layer_id)
        if not regions:
            return self._reader.row(side, layer_id, slot)
        page, token = divmod(slot, regions[0].page_size)
        return _rows(regions, side, layer_id, (page,))[token]

    def stored_bytes(self, side: Side, layer_id: int) -> Tensor:
        """The bytes of all rows of a layer, scales among them: uint8 `[slots, bytes of a row]`."""
        regions = self._holding(_ROW_FIELDS[side], layer_id)
        if not regions:
            return self._reader.stored_bytes(side, layer_id)
        beside = {"key", "value", "padding"} - {side}
        return side_by_side(
            [
                gather_field(region, field, layer_id, range(region.page_count))
                for region in regions
                for field in sorted(region.fields, key=lambda field: field.offset)
                if field.name not in beside
            ]
        )

    def index(self, layer_id: int) -> tuple[Tensor, Tensor]:
        """Index keys of a layer, uint8 `[slots, bytes of a key]`, and their scales, `[slots]`.

        Keys that have no scales come with zeros.
        """
        region = self._region(("index_key",), layer_id)
        if region is None:
            return self._reader.index(layer_id)
        pages = range(region.page_count)
        keys = gather_field(region, region.field("index_key"), layer_id, pages)
        return keys.view(torch.uint8).flatten(1), self._index_scales(region, layer_id, pages)

    def index_at(self, layer_id: int, slot: int) -> tuple[Tensor, float]:
        """The key bytes and the scale of one slot, without touching the others."""
        region = self._region(("index_key",), layer_id)
        if region is None:
            return self._reader.index_at(layer_id, slot)
        page, token = divmod(slot, region.page_size)
        keys = gather_field(region, region.field("index_key"), layer_id, (page,))
        scales = self._index_scales(region, layer_id, (page,))
        return keys[token].view(torch.uint8), float(scales[token])

    def _index_scales(self, keyed: BufferRegion, layer_id: int, pages: Sequence[int]) -> Tensor:
        """The scales of index keys: in their pages, in a region of their own, or none."""
        beside = self._region(("index_scale",), layer_id)
        if beside is not None:
            return gather_field(beside, beside.field("index_scale"), layer_id, pages).flatten()
        if any(field.name == "scale" for field in keyed.fields):
            return gather_field(keyed, keyed.field("scale"), layer_id, pages).flatten()
        return torch.zeros(len(pages) * keyed.page_size)

    def tails(self, layer_id: int) -> tuple[Tensor, Tensor]:
        """Copies of the rings of keys and scores of a layer, `[rows, ring, width]`."""
        found: list[Tensor] = []
        for name in ("tail_key", "tail_score"):
            region = self._region((name,), layer_id)
            if region is not None:
                rows = gather_field(region, region.field(name), layer_id, range(region.page_count))
                found.append(rows.view(region.page_count, region.page_size, -1))
        return (found[0], found[1]) if len(found) == 2 else self._doors.tails(layer_id)

    def index_rows(self, name: Literal["index_key", "index_value"], layer_id: int) -> Tensor:
        """A copy of the index rows by head of a layer, `[slots, heads, width]`.

        The door's own shape, where no region has them.
        """
        region = self._region((name,), layer_id)
        if region is None:
            return self._doors.index_rows(name, layer_id)
        return gather_field(region, region.field(name), layer_id, range(region.page_count))

    @property
    def _reader(self) -> AccessReader | DoorReader:
        """For what no region holds."""
        if self.row_access is None:
            return self._doors
        return AccessReader(self.pool, self.row_access)

    @property
    def _doors(self) -> DoorReader:
        """For what nothing else holds; the one place where a pool is its own witness."""
        self.fallback.note()
        return DoorReader(self.pool, self.door_form)

    def _region(self, names: Sequence[str], layer_id: int) -> BufferRegion | None:
        return next(iter(self._holding(names, layer_id)), None)

    def _holding(self, names: Sequence[str], layer_id: int) -> list[BufferRegion]:
        """Those with such fields of a layer: the parts of a row may lie in regions of their own."""
        return [
            region
            for region in self.regions or ()
            if layer_id in region.layer_ids and any(f.name in names for f in region.fields)
        ]


def _rows(
    regions: Sequence[BufferRegion], side: Side, layer_id: int, pages: Sequence[int]
) -> Tensor:
    wanted = [(r, f) for r in regions for f in r.fields if f.name in _ROW_FIELDS[side]]
    parts = [gather_field(region, field, layer_id, pages) for region, field in wanted]
    first, field = wanted[0]
    scale = next((f for f in first.fields if f.name == "scale" and field.name == "latent"), None)
    if scale is not None:
        scales = gather_field(first, scale, layer_id, pages)
        latent = dequantised(parts[0], scales)
        parts = [latent, *(part.float() for part in parts[1:])]
    rows = parts[0] if len(parts) == 1 else _joined(parts)
    return rows if rows.dim() == 3 else rows.unsqueeze(1)


def gather_field(region: BufferRegion, field: Field, layer_id: int, pages: Iterable[int]) -> Tensor:
    """The elements of a field in these pages of a layer, `[tokens, ...]`, by their addresses."""
    field = region.in_layer(layer_id, field)
    addresses = [region.page_address(layer_id, page) for page in pages]
    found = torch.stack([bytes_at(start, region.bytes_per_page) for start in addresses])
    dtype: torch.dtype = getattr(torch, field.element)
    rows = found[:, _byte_places(field).to(found.device)].flatten()
    return rows.view(dtype).reshape(-1, *field.shape[1:])


@lru_cache(maxsize=512)
def _byte_places(field: Field) -> Tensor:
    """Where in a page each byte of a field's elements is, in the order of its axes.

    Kept for the next reader of a page that is laid out so, on the host: runs differ in device.
    """
    offsets = torch.tensor(field.offset, device=HOST)
    for axis in field.axes:
        along = torch.tensor([axis.offset(i) for i in range(axis.size)], device=HOST)
        offsets = offsets.unsqueeze(-1) + along
    return (offsets.unsqueeze(-1) + torch.arange(field.element_bytes, device=HOST)).flatten()


def _joined(parts: Sequence[Tensor]) -> Tensor:
    joined = side_by_side(parts).view(parts[0].dtype)
    return joined.view(*parts[0].shape[:-1], -1)


def oracle_for(
    pool: KVPool, door_form: DoorForms = no_form, fallback: Fallback | None = None
) -> Oracle:
    """The most independent oracle the pool allows by itself; `door_form` is how to read doors."""
    return Oracle(pool, regions_of(pool), door_form, fallback=fallback or Fallback())


def regions_of(pool: object) -> tuple[BufferRegion, ...] | None:
    """What a pool declares; None where it declares nothing, or raises instead."""
    if not isinstance(pool, DeclaresRegions):
        return None
    try:
        return pool.buffer_regions()
    except Exception:  # the laws on regions ask again, and then it is their finding
        return None
