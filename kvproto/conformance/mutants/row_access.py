"""Ways to look at a pool that do not show what is there; the pools themselves are right."""

# pyright: reportIncompatibleMethodOverride=false
# They keep their regions to themselves on purpose.

from __future__ import annotations

from typing import Any

from torch import Tensor

from kvproto.protocols import MHALeafRequest
from kvproto.reference import MHALeaf

from ..row_access import RowPart
from .registry import mutant


class _OwnBuffers:
    """Right for `MHALeaf`; subclasses put one thing wrong."""

    def _at(self, pool: Any, part: RowPart, layer_id: int, slot: int) -> Tensor:
        buffers = pool.k_buffer if part == "key" else pool.v_buffer
        row: Tensor = buffers[layer_id - pool.start_layer][slot].view(pool.dtype)
        return row

    def peek(self, pool: Any, part: RowPart, layer_id: int, slot: int, /) -> Tensor:
        return self._at(pool, part, layer_id, slot).clone()

    def poke(self, pool: Any, part: RowPart, layer_id: int, slot: int, row: Tensor, /) -> None:
        self._at(pool, part, layer_id, slot).copy_(row)


class _PeeksTheRowAfter(_OwnBuffers):
    def peek(self, pool: Any, part: RowPart, layer_id: int, slot: int, /) -> Tensor:
        return super().peek(pool, part, layer_id, (slot + 1) % pool.size)


class _PokesEveryLayer(_OwnBuffers):
    def poke(self, pool: Any, part: RowPart, layer_id: int, slot: int, row: Tensor, /) -> None:
        for each in range(pool.start_layer, pool.end_layer):
            super().poke(pool, part, each, slot, row)


class _RemembersWhatItPoked(_OwnBuffers):
    def __init__(self) -> None:
        self._kept: dict[tuple[int, RowPart, int, int], Tensor] = {}

    def peek(self, pool: Any, part: RowPart, layer_id: int, slot: int, /) -> Tensor:
        kept = self._kept.get((id(pool), part, layer_id, slot))
        return super().peek(pool, part, layer_id, slot) if kept is None else kept

    def poke(self, pool: Any, part: RowPart, layer_id: int, slot: int, row: Tensor, /) -> None:
        self._kept[id(pool), part, layer_id, slot] = row.clone()


class _CountsFromTheEnd(_OwnBuffers):
    def _at(self, pool: Any, part: RowPart, layer_id: int, slot: int) -> Tensor:
        return super()._at(pool, part, layer_id, -1 - slot)


class _AsksTheDoor(_OwnBuffers):
    def _at(self, pool: Any, part: RowPart, layer_id: int, slot: int) -> Tensor:
        door = pool.get_key_buffer if part == "key" else pool.get_value_buffer
        row: Tensor = door(layer_id)[slot]
        return row


class _HidesRegions(MHALeaf):
    buffer_regions: None = None  # type: ignore[assignment]


@mutant("oracle.poke-peek", serves=MHALeafRequest, row_access=_PeeksTheRowAfter())
class PeekedAtTheRowAfter(_HidesRegions):
    pass


@mutant("oracle.poke-peek", serves=MHALeafRequest, row_access=_PokesEveryLayer())
class PokedInEveryLayer(_HidesRegions):
    pass


@mutant("oracle.poke-read", serves=MHALeafRequest, row_access=_RemembersWhatItPoked())
class PokedInMemoryOfTheTest(_HidesRegions):
    pass


@mutant("oracle.poke-read", serves=MHALeafRequest, row_access=_CountsFromTheEnd())
class PokedFromTheEnd(_HidesRegions):
    pass


@mutant("oracle.peek-regions", serves=MHALeafRequest, row_access=_CountsFromTheEnd())
class PeekedFromTheEnd(MHALeaf):
    pass


@mutant("oracle.no-doors", serves=MHALeafRequest, row_access=_AsksTheDoor())
class PeekedThroughItsDoors(_HidesRegions):
    pass
