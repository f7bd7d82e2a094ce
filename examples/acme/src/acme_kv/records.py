"""Acme's layout: one record a token slot, in which the rows of every layer lie together.

    slot 0 | keys of layer 8 | keys of layer 9 | values of layer 8 | values of layer 9
    slot 1 | keys of layer 8 | keys of layer 9 | values of layer 8 | values of layer 9
    ...

So a page is one run of bytes, whatever the number of layers: a transfer sends it in one piece, and
a token is moved by one copy. A layer's rows are a view whose first stride is a whole record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from kvproto.protocols import Axis, BufferRegion, ElementType, Field, FieldName, Tile

__all__ = ["ELEMENTS", "Records", "Row"]

ELEMENTS: dict[torch.dtype, ElementType] = {
    torch.bfloat16: "bfloat16",
    torch.float16: "float16",
    torch.float32: "float32",
}
"""What Acme's kernels read."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a token has in each layer: for each head, pieces side by side, with their widths.

    A key row is `Row({"key": 128}, heads=8)`. Where all heads share one, as they do a latent row,
    `heads` is None: `Row({"latent": 512, "rope": 64})`.
    """

    pieces: dict[FieldName, int]
    heads: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """As read doors show a row: heads, and elements of each."""
        return self.heads or 1, sum(self.pieces.values())


class Records:
    """`data`, `[slots, elements of a record]`, zero; the first `page_size` slots are reserved."""

    def __init__(
        self,
        size: int,
        page_size: int,
        layer_ids: range,
        rows: Sequence[Row],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.page_size, self.layer_ids, self.rows = page_size, layer_ids, tuple(rows)
        lengths = [len(layer_ids) * prod(row.shape) for row in rows]
        self.data = torch.zeros(size + page_size, sum(lengths), dtype=dtype, device=device)
        self._parts = torch.split(self.data, lengths, dim=1)

    def views(self, row: int) -> list[Tensor]:
        """For each layer `[slots, heads, width]` of that row: an alias, a record apart."""
        shape = (len(self.data), len(self.layer_ids), *self.rows[row].shape)
        return list(self._parts[row].view(shape).unbind(1))

    def regions(self) -> tuple[BufferRegion, ...]:
        """Where each byte is, for whoever sends, mirrors or checks pages."""
        if not self.layer_ids:
            return ()
        region = BufferRegion(
            layer_ids=tuple(self.layer_ids),
            bases=(self.data.data_ptr(),),
            page_count=len(self.data) // self.page_size,
            page_size=self.page_size,
            bytes_per_page=self.page_size * self._record_bytes,
            fields=tuple(self._fields()),
        )
        return (region,)

    @property
    def _record_bytes(self) -> int:
        return self.data.shape[1] * self.data.itemsize

    def _fields(self) -> Iterator[Field]:
        element, size, start = ELEMENTS[self.data.dtype], self.data.itemsize, 0
        token = Axis("token", (Tile(self.page_size, self._record_bytes),))
        for row in self.rows:
            heads, width = row.shape
            layer = Axis("layer", (Tile(len(self.layer_ids), heads * width * size),))
            head = () if row.heads is None else (Axis("head", (Tile(heads, width * size),)),)
            at = start
            for name, elements in row.pieces.items():
                dim = Axis("dim", (Tile(elements, size),))
                yield Field(name, element, (token, layer, *head, dim), offset=at)
                at += elements * size
            start += len(self.layer_ids) * heads * width * size
