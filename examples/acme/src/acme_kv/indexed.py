"""Sparse latent attention: index keys beside the rows, in the pages that the contract lays out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kvproto.kernels import (
    gather_index_keys,
    index_page_bytes,
    load_index_keys,
    move_index_key_sets,
    store_index_keys,
)
from kvproto.protocols import BufferRegion, DSALeafRequest, Field, row_major

from .latents import AcmeLatents

__all__ = ["AcmeIndexed"]


class AcmeIndexed(AcmeLatents):
    """A page of index keys is all its keys, then all their scales; of each layer apart.

    `IndexerCapable` fixes that format, so Acme takes kvproto's kernels for it.
    """

    index_k_with_scale_buffer: list[Tensor]
    index_head_dim: int
    index_page_size: int
    index_kpool = 1
    pool_traits = replace(
        AcmeLatents.pool_traits,
        kind="dsa",
        index_scheme="dsa_fp8_scale",
        state_index_space="kv_pages",
    )

    def __init__(self, request: DSALeafRequest) -> None:
        super().__init__(request)
        self.index_head_dim, self.index_page_size = request.index_head_dim, request.page_size
        shared = request.skip_topk_layers or (False,) * request.layer_num
        self.index_k_with_scale_buffer = [self._pages(0 if skips else 1) for skips in shared]

    def _pages(self, times: int) -> Tensor:
        width = index_page_bytes(self.index_page_size, self.index_head_dim)
        pages = (self.size // self.page_size + 1) * times
        return torch.zeros(pages, width, dtype=torch.uint8, device=self.device)

    def _own_pages(self, local: int, layer_id: int) -> Tensor:
        pages = self.index_k_with_scale_buffer[local]
        if not pages.shape[0]:
            raise ValueError(f"layer {layer_id} reuses the choice of an earlier one: no index keys")
        return pages

    @property
    def _keyed(self) -> dict[int, Tensor]:
        """Layer id -> index pages, of the layers that have some."""
        by_id = zip(self._records.layer_ids, self.index_k_with_scale_buffer, strict=True)
        return {layer_id: pages for layer_id, pages in by_id if pages.shape[0]}

    def get_index_k_with_scale_buffer(self, layer_id: int) -> Tensor:
        """The index pages of a layer; none where it reuses an earlier layer's choice."""
        return self.index_k_with_scale_buffer[self._loaded(layer_id)]

    def set_index_k_scale_buffer(
        self, layer_id: int, loc: Tensor, index_k: Tensor, index_k_scale: Tensor
    ) -> None:
        """Keys and scales to slots; those for slot 0 and below are dropped."""
        pages = self._own_pages(self._local(layer_id), layer_id)
        rows = loc.shape[0], self.index_head_dim
        if index_k.shape != rows or index_k.dtype not in (torch.float8_e4m3fn, torch.uint8):
            raise ValueError(
                f"index_k is {index_k.dtype} {tuple(index_k.shape)}, must be e4m3fn {rows} or its "
                "bytes; nothing was written"
            )
        keys, scales = index_k.contiguous(), index_k_scale.reshape(-1, 1).contiguous()
        store_index_keys(pages, loc, keys.view(torch.uint8), scales.view(torch.uint8))

    def get_index_k_scale_buffer(
        self,
        layer_id: int,
        seq_len_tensor: Tensor,
        page_indices: Tensor,
        seq_len_sum: int,
        max_seq_len: int,
    ) -> tuple[Tensor, Tensor]:
        """Keys and scales of a batch, request after request."""
        pages = self._own_pages(self._loaded(layer_id), layer_id)
        return gather_index_keys(
            pages,
            seq_len_tensor,
            page_indices,
            seq_len_sum,
            self.index_page_size,
            self.index_head_dim,
        )

    def move_kv_cache(self, tgt_loc: Tensor, src_loc: Tensor, /) -> None:
        """Records, and index keys with them."""
        super().move_kv_cache(tgt_loc, src_loc)
        move_index_key_sets(list(self._keyed.values()), tgt_loc, src_loc, self.index_head_dim)

    def get_cpu_copy(
        self,
        indices: Tensor,
        /,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> list[Tensor]:
        """The records, then keys and scales of each layer that has some."""
        copy = super().get_cpu_copy(indices)
        for pages in self._keyed.values():
            parts = load_index_keys(pages, indices, self.index_head_dim)
            copy += [part.cpu() for part in parts]
        return copy

    def load_cpu_copy(
        self,
        kv_cache_cpu: Any,
        indices: Tensor,
        /,
        mamba_indices: Tensor | None = None,
        req_pool_index: int | None = None,
    ) -> None:
        """All of them back."""
        super().load_cpu_copy(kv_cache_cpu, indices)
        parts: list[Tensor] = [part.to(self.device) for part in kv_cache_cpu[1:]]
        for pages, keys, scales in zip(self._keyed.values(), parts[::2], parts[1::2], strict=True):
            store_index_keys(pages, indices, keys, scales)

    def buffer_regions(self) -> tuple[BufferRegion, ...]:
        """The records' region, then that of the index pages."""
        if not self._keyed:
            return super().buffer_regions()
        page, width = self.index_page_size, self.index_head_dim
        keys = Field(
            "index_key",
            "float8_e4m3fn",
            row_major("float8_e4m3fn", ("token", page), ("dim", width)),
        )
        scales = Field(
            "scale", "float32", row_major("float32", ("token", page)), offset=page * width
        )
        region = BufferRegion(
            layer_ids=tuple(self._keyed),
            bases=tuple(pages.data_ptr() for pages in self._keyed.values()),
            page_count=self.size // self.page_size + 1,
            page_size=page,
            bytes_per_page=index_page_bytes(page, width),
            fields=(keys, scales),
        )
        return (*super().buffer_regions(), region)

    def get_state_buf_infos(self) -> tuple[list[int], list[int], list[int]]:
        """An entry a layer, so that peers pair them by position; of no bytes where it has none."""
        buffers = self.index_k_with_scale_buffer
        items = [pages.shape[1] if pages.shape[0] else 0 for pages in buffers]
        return [pages.data_ptr() for pages in buffers], [pages.nbytes for pages in buffers], items

    @property
    def _nbytes(self) -> int:
        return super()._nbytes + sum(pages.nbytes for pages in self._keyed.values())
