"""How the elements of one page lie in memory: axes, strides, tiles, fields. Pure integers."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Literal

__all__ = [
    "ELEMENT_BYTES",
    "Axis",
    "AxisName",
    "ElementType",
    "Field",
    "FieldName",
    "Tile",
    "row_major",
]

AxisName = Literal["token", "layer", "head", "dim", "group"]
"""Token within the page, layer where a page holds all of them, head, element of a head's row, block
of elements that share a scale."""

FieldName = Literal[
    "key",
    "value",
    "latent",
    "rope",
    "index_key",
    "index_value",
    "index_scale",
    "scale",
    "key_scale",
    "value_scale",
    "state",
    "tail_key",
    "tail_score",
    "padding",
]
"""What the bytes are; `scale` where a region or a row has only one kind of it. `padding` is read by
nobody."""

ElementType = Literal[
    "bfloat16",
    "float16",
    "float32",
    "uint8",
    "int8",
    "int32",
    "int64",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float4_e2m1fn_x2",
]
"""What a stored element means; the fp8 variant is part of the name. `_x2` packs two in a byte."""

ELEMENT_BYTES: dict[ElementType, int] = {
    "bfloat16": 2,
    "float16": 2,
    "float32": 4,
    "uint8": 1,
    "int8": 1,
    "int32": 4,
    "int64": 8,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
}


@dataclass(frozen=True, slots=True)
class Tile:
    """One level of an axis: `extent` steps of `stride` bytes."""

    extent: int
    stride: int

    def __post_init__(self) -> None:
        if self.extent < 1 or self.stride < 0:
            raise ValueError(f"{self}: extent must be at least 1, stride at least 0")


@dataclass(frozen=True, slots=True)
class Axis:
    """A logical axis as nested tiles, outermost first: index `i` is a mixed-radix number in them.

    One tile is an ordinary strided axis. Two describe blocking: 64 elements in blocks of 16
    are `(Tile(4, block_stride), Tile(16, element_stride))`.
    """

    name: AxisName
    tiles: tuple[Tile, ...]

    @property
    def size(self) -> int:
        """Logical length: the product of the tiles' extents."""
        return prod(tile.extent for tile in self.tiles)

    @property
    def span(self) -> int:
        """Bytes from the first to the last element's first byte."""
        return sum((tile.extent - 1) * tile.stride for tile in self.tiles)

    def offset(self, index: int) -> int:
        """Bytes from element 0 to element `index`.

        :raises IndexError: outside `0 <= index < size`; nothing wraps.
        """
        if not 0 <= index < self.size:
            raise IndexError(f"{self.name} {index} is outside 0..{self.size - 1}")
        total = 0
        for tile in reversed(self.tiles):
            index, digit = divmod(index, tile.extent)
            total += digit * tile.stride
        return total


@dataclass(frozen=True, slots=True)
class Field:
    """A group of equal elements in a page: `offset` bytes from its start, along `axes`.

    A page of one plain tensor is one field. A packed row (fp8 latent, scales, bf16 rope) or a
    page of keys followed by their scales is several.
    """

    name: FieldName
    element: ElementType
    axes: tuple[Axis, ...]
    offset: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Logical sizes of the axes."""
        return tuple(axis.size for axis in self.axes)

    @property
    def element_bytes(self) -> int:
        """Bytes of one stored element."""
        return ELEMENT_BYTES[self.element]

    @property
    def end(self) -> int:
        """One past the field's last byte, from the page's start."""
        return self.offset + sum(axis.span for axis in self.axes) + self.element_bytes

    def at(self, *index: int) -> int:
        """Bytes from the page's start to one element; an index per axis, in their order.

        :raises IndexError: for a wrong number of indices, or one outside its axis.
        """
        if len(index) != len(self.axes):
            names = ", ".join(axis.name for axis in self.axes)
            raise IndexError(f"field {self.name} is indexed by ({names}), got {len(index)} indices")
        return self.offset + sum(axis.offset(i) for axis, i in zip(self.axes, index, strict=True))


def row_major(element: ElementType, *axes: tuple[AxisName, int]) -> tuple[Axis, ...]:
    """Dense axes, the last one contiguous: `("token", 16), ("head", 8), ("dim", 128)`."""
    stride = ELEMENT_BYTES[element]
    dense: list[Axis] = []
    for name, size in reversed(axes):
        dense.append(Axis(name, (Tile(size, stride),)))
        stride *= size
    return tuple(reversed(dense))
