"""In which order the elements of a page lie, whatever the lengths of its axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from kvproto.protocols import Field, Tile
from kvproto.protocols.layout import AxisName

__all__ = ["Nest", "exact_places", "nest_text", "nests"]

Nest: TypeAlias = tuple[tuple[AxisName, int], ...]
"""Axes from the widest steps to the narrowest, an axis once for each of its tiles, and lengths."""


def nests(fields: Sequence[Field], *, but: frozenset[AxisName] = frozenset()) -> list[Nest]:
    """The nest of each field: `token, head, dim` of `nhd` pages; `but` names axes to leave out."""
    return [_nest(field, but) for field in fields]


def _nest(field: Field, but: frozenset[AxisName]) -> Nest:
    named: list[tuple[AxisName, Tile]] = [
        (axis.name, tile) for axis in field.axes for tile in axis.tiles
    ]
    tiles = [each for each in named if each[0] not in but and each[1].extent > 1]
    tiles.sort(key=lambda each: -each[1].stride)
    joined: list[tuple[AxisName, int]] = []
    for place, (name, tile) in enumerate(tiles):
        outer, above = tiles[place - 1]
        if place and outer == name and above.stride == tile.stride * tile.extent:
            joined[-1] = (outer, joined[-1][1] * tile.extent)
        else:
            joined.append((name, tile.extent))
    return tuple(joined)


def exact_places(fields: Sequence[Field]) -> list[tuple[object, ...]]:
    """Where elements lie to the byte, of axes of one step only, whose stride means nothing."""
    return [
        (field.offset, *(tuple(t for t in axis.tiles if t.extent > 1) for axis in field.axes))
        for field in fields
    ]


def nest_text(each: Sequence[Nest]) -> str:
    """For people: the axes of each field in their order."""
    return "; ".join("[" + ", ".join(f"{name} {extent}" for name, extent in n) + "]" for n in each)
