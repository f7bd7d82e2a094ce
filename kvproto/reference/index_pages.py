"""How the index keys of a page lie, what an element of them means, and the ways in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kvproto.kernels import (
    gather_index_keys,
    index_page_bytes,
    load_index_keys,
    move_index_key_sets,
    store_index_keys,
)
from kvproto.kernels.index_page import KEY_TILE
from kvproto.protocols import Axis, BufferRegion, Field, IndexLayout, Tile, row_major

from .elements import ELEMENT_OF

__all__ = ["IndexPages"]

_ELEMENTS = (torch.float8_e4m3fn, torch.float8_e4m3fnuz)


@dataclass(frozen=True, slots=True)
class IndexPages:
    """Pages of `size` fp8 keys of `head_dim`, then their float32 scales; uint8 `[pages, bytes]`.

    :raises ValueError: for another element type, and for pages that are not whole tiles where
        `layout` has some.
    """

    size: int
    head_dim: int
    dtype: torch.dtype
    layout: IndexLayout

    def __post_init__(self) -> None:
        if self.dtype not in _ELEMENTS:
            raise ValueError(
                f"index_dtype={self.dtype}: index keys are {' or '.join(map(str, _ELEMENTS))}"
            )
        if self.layout == "preshuffled" and (self.size % KEY_TILE or self.head_dim % KEY_TILE):
            raise ValueError(
                f"index_layout='preshuffled': {self.size} keys of index_head_dim={self.head_dim} "
                f"on a page: both must be multiples of {KEY_TILE}"
            )

    @property
    def page_bytes(self) -> int:
        """Bytes of a page: 8448 for 64 keys of 128."""
        return index_page_bytes(self.size, self.head_dim)

    def store(self, pages: Tensor, slots: Tensor, keys: Tensor, scales: Tensor) -> None:
        """Put the bytes of keys and scales at slots; 0 and below are dropped."""
        store_index_keys(pages, slots, keys, scales, self.layout)

    def load(self, pages: Tensor, slots: Tensor) -> tuple[Tensor, Tensor]:
        """The bytes of keys and scales at slots, `[n, head_dim]` and `[n, 4]`, fresh."""
        return load_index_keys(pages, slots, self.head_dim, self.layout)

    def gather(
        self, pages: Tensor, seq_lens: Tensor, page_indices: Tensor, seq_len_sum: int
    ) -> tuple[Tensor, Tensor]:
        """The same of a batch, request after request."""
        return gather_index_keys(
            pages, seq_lens, page_indices, seq_len_sum, self.size, self.head_dim, self.layout
        )

    def move(self, layers: Sequence[Tensor], tgt_slots: Tensor, src_slots: Tensor) -> None:
        """Copy keys and scales from slot to slot in every layer; sources are read first."""
        move_index_key_sets(layers, tgt_slots, src_slots, self.head_dim, self.layout)

    def region(self, layers: Sequence[Tensor], layer_ids: tuple[int, ...]) -> BufferRegion:
        """Where they are in the pages of these layers."""
        scales = row_major("float32", ("token", self.size))
        return BufferRegion(
            layer_ids=layer_ids,
            bases=tuple(pages.data_ptr() for pages in layers),
            page_count=layers[0].shape[0],
            page_size=self.size,
            bytes_per_page=self.page_bytes,
            fields=(
                Field("index_key", ELEMENT_OF[self.dtype], self._axes()),
                Field("scale", "float32", scales, offset=self.size * self.head_dim),
            ),
        )

    def _axes(self) -> tuple[Axis, ...]:
        """Tokens of a page, and elements of a key, of a byte each."""
        if self.layout == "token_rows":
            return row_major(ELEMENT_OF[self.dtype], ("token", self.size), ("dim", self.head_dim))
        down = Tile(self.size // KEY_TILE, KEY_TILE * self.head_dim), Tile(KEY_TILE, KEY_TILE)
        along = Tile(self.head_dim // KEY_TILE, KEY_TILE * KEY_TILE), Tile(KEY_TILE, 1)
        return Axis("token", down), Axis("dim", along)
