"""Key and value rows of all layers together: a page is one run of bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from kvproto.kernels import check_locations, clear_slots, copy_slots
from kvproto.protocols import BufferRegion

from .envelope_layout import Envelope, envelope_misfit
from .mha import MHALeaf
from .row_layouts import RowGeometry, RowLayoutName

__all__ = ["PageEnvelopeLeaf"]


class PageEnvelopeLeaf(MHALeaf):
    """A leaf whose token slots have one entry each, with the rows of all layers.

    `k_buffer` and `v_buffer` are views of it, `[size + page_size, head_num, head_dim |
    v_head_dim]` in the store dtype, whose first stride is a whole entry. A page, `page_size`
    entries, is one run of bytes: it is exported, moved and zeroed whole. The leaf owns the bytes,
    and locations are physical. Keywords are those of `MHALeaf`.

    :raises ValueError: as `MHALeaf`, for rows that are no multiple of 16 bytes, and for another
        `kv_cache_layout`.
    """

    # One region holds all layers, so none can be named for it.
    get_kv_layer_ids: None = None  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleMethodOverride]
    requires_physical_write_loc = False

    def __init__(
        self,
        size: int,
        page_size: int,
        dtype: torch.dtype,
        head_num: int,
        head_dim: int,
        layer_num: int,
        device: str | torch.device,
        enable_memory_saver: bool = False,
        v_head_dim: int | None = None,
        start_layer: int | None = None,
        end_layer: int | None = None,
        enable_alt_stream: bool = True,
        enable_kv_cache_copy: bool = False,
        kv_cache_layout: Literal["page_envelope"] | None = None,
    ) -> None:
        if kv_cache_layout not in (None, "page_envelope"):
            raise ValueError(
                f"kv_cache_layout={kv_cache_layout!r}: a PageEnvelopeLeaf has 'page_envelope' "
                "only; an MHALeaf has the others"
            )
        widths = head_dim, head_dim if v_head_dim is None else v_head_dim
        if reason := envelope_misfit(head_num, widths, dtype.itemsize):
            raise ValueError(reason)
        super().__init__(
            size,
            page_size,
            dtype,
            head_num,
            head_dim,
            layer_num,
            device,
            enable_memory_saver,
            v_head_dim,
            start_layer,
            end_layer,
        )
        self.pool_traits = replace(
            self.pool_traits, layout="page_envelope", transfer_layout="page_envelope"
        )
        self.kv_cache_layout = "page_envelope"

    def _allocated(
        self, layout: RowLayoutName, keys: RowGeometry, values: RowGeometry
    ) -> tuple[list[Tensor], list[Tensor]]:
        self._envelope = Envelope(
            keys.pages,
            keys.page_size,
            self.layer_num,
            keys.heads,
            (keys.width, values.width),
            self.dtype,
        )
        shape = (keys.pages, self._envelope.page_bytes)
        self._raw = torch.zeros(shape, dtype=torch.uint8, device=self.device)
        return self._envelope.views(self._raw)

    def _row_regions(self) -> tuple[BufferRegion, ...]:
        if not self.layer_num:
            return ()
        return (self._envelope.region(self._raw, self._layers.ids),)

    def get_contiguous_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """One entry for all layers, whose items are envelopes."""
        return super().get_contiguous_buf_infos()

    def get_kv_size_bytes(self) -> tuple[int, int]:
        """Bytes of all key rows, and of all value rows with the padding beside them."""
        slots = self.size + self.page_size
        keys = slots * self.layer_num * self._envelope.row_bytes[0]
        return keys, self._raw.nbytes - keys

    @property
    def grow_direction(self) -> str:
        """Up: the leaf has the allocation for itself."""
        return "up"

    def get_page_envelope_buffer(self) -> Tensor:
        """uint8 `[pages, bytes of an envelope]`, by page; an alias."""
        return self._raw

    def move_physical_pages(self, tgt_pages: Tensor, src_pages: Tensor, page_size: int, /) -> None:
        """Copy whole envelopes, as `PageEnvelope` says; targets of 0 and below are dropped.

        :raises ValueError: for another page size.
        :raises IndexError: on CPU, for a page past the last; nothing is moved.
        """
        if page_size != self.page_size:
            raise ValueError(
                f"page_size={page_size}: an envelope here holds {self.page_size} slots"
            )
        for pages in (tgt_pages, src_pages):
            check_locations(pages, self._raw.shape[0])
        copy_slots(self._raw.unsqueeze(0), src_pages, tgt_pages)

    def zero_physical_pages(self, phys_pages: Tensor, /) -> None:
        """Zero whole envelopes; 0 and below mean the reserved page.

        :raises IndexError: on CPU, for a page past the last; nothing is zeroed.
        """
        check_locations(phys_pages, self._raw.shape[0])
        clear_slots(self._raw.unsqueeze(0), phys_pages)
