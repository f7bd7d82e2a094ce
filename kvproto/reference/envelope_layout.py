"""How the rows of all layers lie together in the entry of a token slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.protocols import Axis, BufferRegion, Field, Tile, row_major
from kvproto.protocols.layout import FieldName
from kvproto.protocols.request_bytes import ENVELOPE_ALIGNMENT

from .elements import ELEMENT_OF

__all__ = ["Envelope", "envelope_misfit"]

_ROW_ALIGNMENT = 16


@dataclass(frozen=True, slots=True)
class Envelope:
    """Pages of `page_size` entries; an entry has, layer after layer, a key row and a value row.

    An entry is padded to 32 bytes, and every row in it begins at a multiple of 16 (see
    `envelope_misfit`), so that vector loads and stores are aligned. A page's entries follow each
    other: a page is one run of bytes, its envelope. The reserved page counts.
    """

    pages: int
    page_size: int
    layers: int
    heads: int
    widths: tuple[int, int]
    dtype: torch.dtype

    @property
    def row_bytes(self) -> tuple[int, int]:
        """Bytes of a key row and of a value row, all heads."""
        key, value = (self.heads * width * self.dtype.itemsize for width in self.widths)
        return key, value

    @property
    def rows_bytes(self) -> int:
        """Bytes of an entry's rows, without its padding."""
        return self.layers * sum(self.row_bytes)

    @property
    def entry_bytes(self) -> int:
        """Bytes from an entry to the next."""
        return -(-self.rows_bytes // ENVELOPE_ALIGNMENT) * ENVELOPE_ALIGNMENT

    @property
    def page_bytes(self) -> int:
        """Bytes of a page."""
        return self.page_size * self.entry_bytes

    def views(self, raw: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The keys and the values of each layer: `[slots, heads, width]`, an entry apart.

        `raw` is uint8 `[pages, page_bytes]`; the views have the store dtype.
        """
        store = torch.uint8 if self.dtype.itemsize == 1 else self.dtype
        elements = raw.view(-1).view(store)
        starts = [layer * sum(self.row_bytes) for layer in range(self.layers)]
        keys = [self._view(elements, start, self.widths[0]) for start in starts]
        values = [
            self._view(elements, start + self.row_bytes[0], self.widths[1]) for start in starts
        ]
        return keys, values

    def _view(self, elements: Tensor, start: int, width: int) -> Tensor:
        size = self.dtype.itemsize
        shape = (self.pages * self.page_size, self.heads, width)
        return elements.as_strided(
            shape,
            (self.entry_bytes // size, width, 1),
            elements.storage_offset() + start // size,
        )

    def region(self, raw: Tensor, layer_ids: Sequence[int]) -> BufferRegion:
        """The one region of keys, values and padding."""
        key = self._field("key", 0, self.widths[0])
        value = self._field("value", self.row_bytes[0], self.widths[1])
        return BufferRegion(
            layer_ids=tuple(layer_ids),
            bases=(raw.data_ptr(),),
            page_count=self.pages,
            page_size=self.page_size,
            bytes_per_page=self.page_bytes,
            fields=(key, value, *self._padding()),
        )

    def _field(self, name: FieldName, offset: int, width: int) -> Field:
        element = ELEMENT_OF[self.dtype]
        axes = (
            self._entries(),
            Axis("layer", (Tile(self.layers, sum(self.row_bytes)),)),
            *row_major(element, ("head", self.heads), ("dim", width)),
        )
        return Field(name, element, axes, offset)

    def _padding(self) -> tuple[Field, ...]:
        beyond = self.entry_bytes - self.rows_bytes
        if not beyond:
            return ()
        axes = (self._entries(), *row_major("uint8", ("dim", beyond)))
        return (Field("padding", "uint8", axes, self.rows_bytes),)

    def _entries(self) -> Axis:
        return Axis("token", (Tile(self.page_size, self.entry_bytes),))


def envelope_misfit(heads: int, widths: tuple[int, int], itemsize: int) -> str:
    """Why such rows cannot lie in an envelope; "" where they can."""
    named = {"key": widths[0], "value": widths[1]}
    wrong = [
        f"{name} rows of {heads * width * itemsize} bytes"
        for name, width in named.items()
        if heads * width * itemsize % _ROW_ALIGNMENT
    ]
    if not wrong:
        return ""
    return (
        f"page_envelope keeps every row at a multiple of {_ROW_ALIGNMENT} bytes: "
        f"{' and '.join(wrong)} do not fit; widen head_dim or v_head_dim, or keep layers apart"
    )
