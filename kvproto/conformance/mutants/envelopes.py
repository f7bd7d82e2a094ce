"""Leaves of page envelopes, right but for one fault each."""

# pyright: reportIncompatibleMethodOverride=false
# These pools are wrong on purpose.

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from kvproto.kernels import move_rows
from kvproto.protocols import Axis, BufferRegion, Field, MHALeafRequest, Tile
from kvproto.reference import PageEnvelopeLeaf

from .registry import mutant


@mutant("envelope.move", serves=MHALeafRequest, layouts=("page_envelope",))
class MovesTheFirstLayer(PageEnvelopeLeaf):
    def move_physical_pages(self, tgt_pages: Tensor, src_pages: Tensor, page_size: int, /) -> None:
        self._refuse(page_size)
        for buffer in (*self.k_buffer[:1], *self.v_buffer[:1]):
            heads, width = buffer.shape[1:]
            pages = buffer.view(-1, self.page_size, heads, width)
            move_rows(pages, tgt_pages, src_pages)

    def _refuse(self, page_size: int) -> None:
        if page_size != self.page_size:
            raise ValueError(f"pages of {self.page_size}")


@mutant("envelope.move-page-size", serves=MHALeafRequest, layouts=("page_envelope",))
class TakesAnyPageSize(PageEnvelopeLeaf):
    def move_physical_pages(self, tgt_pages: Tensor, src_pages: Tensor, page_size: int, /) -> None:
        super().move_physical_pages(tgt_pages, src_pages, self.page_size)


@mutant("envelope.reserved", serves=MHALeafRequest, layouts=("page_envelope",))
class MovesToTheReservedPage(PageEnvelopeLeaf):
    def move_physical_pages(self, tgt_pages: Tensor, src_pages: Tensor, page_size: int, /) -> None:
        self._raw[tgt_pages.long()] = self._raw[src_pages.long()]


@mutant("envelope.zero", serves=MHALeafRequest, layouts=("page_envelope",))
class ZeroesSlots(PageEnvelopeLeaf):
    def zero_physical_pages(self, phys_pages: Tensor, /) -> None:
        self._raw.view(self.size + self.page_size, -1)[phys_pages] = 0


@mutant("envelope.buffer", serves=MHALeafRequest, layouts=("page_envelope",))
class ShowsACopy(PageEnvelopeLeaf):
    def get_page_envelope_buffer(self) -> Tensor:
        return super().get_page_envelope_buffer().clone()


@mutant("envelope.one-entry", serves=MHALeafRequest, layouts=("page_envelope",))
class ExportsLayerByLayer(PageEnvelopeLeaf):
    """As pools do whose layers lie apart, over storage in which they do not."""

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        buffers = [*self.k_buffer, *self.v_buffer]
        items = [self.page_size * buffer[0].nbytes for buffer in buffers]
        pages = self.size // self.page_size + 1
        return [b.data_ptr() for b in buffers], [pages * item for item in items], items


@mutant("transfer.item-len", serves=MHALeafRequest, layouts=("page_envelope",))
class CountsRowsWithoutPadding(PageEnvelopeLeaf):
    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        item = self.page_size * self._envelope.rows_bytes
        pages = self.size // self.page_size + 1
        return [self._raw.data_ptr()], [pages * item], [item]


@mutant("oracle.rows", serves=MHALeafRequest, layouts=("page_envelope",))
class DeclaresLayersApart(PageEnvelopeLeaf):
    """Keys of all layers and then values of all layers, where they take turns."""

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        return tuple(self._apart(region) for region in super().buffer_regions())

    def _apart(self, region: BufferRegion) -> BufferRegion:
        sizes = dict(zip(("key", "value"), self._envelope.row_bytes, strict=True))
        starts = {"key": 0, "value": self.layer_num * sizes["key"]}

        def field(given: Field) -> Field:
            if given.name not in sizes:
                return given
            token, _, *row = given.axes
            layers = Axis("layer", (Tile(self.layer_num, sizes[given.name]),))
            return replace(given, axes=(token, layers, *row), offset=starts[given.name])

        return replace(region, fields=tuple(map(field, region.fields)))


@mutant("move.overlap", serves=MHALeafRequest, layouts=("page_envelope",))
class MovesEntriesOfPages(PageEnvelopeLeaf):
    """A move of slots that takes them for pages."""

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        pages = self._raw.shape[0] - 1
        tgt, src = (torch.clamp(loc, max=pages) for loc in (tgt_loc, src_loc))
        self.move_physical_pages(tgt, src, self.page_size)
