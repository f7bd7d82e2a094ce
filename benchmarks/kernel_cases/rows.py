"""Which memory a kernel copies, as tensors: how wide accesses could be follows from these alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd
from typing import NamedTuple

import torch
from torch import Tensor

from kvproto.kernels import IndexLayout, RowTiles
from kvproto.kernels.index_page import KEY_TILE, SCALE_BYTES, key_tile

__all__ = ["Moved", "Rows", "index_rows", "moved", "plain_rows", "tiled_rows"]

_WIDEST = 16


class Rows(NamedTuple):
    """A tensor whose first `lead` axes say which row, in no order, and the others where along it.

    Compilers are told that memory begins at a multiple of 16 bytes, as every allocator gives it:
    on `meta` a tensor's address is its distance from there.
    """

    tensor: Tensor
    lead: int = 1

    @property
    def widest(self) -> int:
        """Bytes that are consecutive in every row and aligned in every row, 16 at most."""
        strides, size = self.tensor.stride(), self.tensor.itemsize
        axes = [(s, n) for s, n in zip(strides, self.tensor.shape, strict=True) if n > 1]
        along = zip(strides[self.lead :], self.tensor.shape[self.lead :], strict=True)
        run = 1
        for stride, extent in sorted(axis for axis in along if axis[1] > 1):
            if stride != run:
                break
            run *= extent
        apart = (stride for stride, _ in axes if stride >= run or run == 1)
        return gcd(_WIDEST, self.tensor.data_ptr(), run * size, *(each * size for each in apart))


class Moved(NamedTuple):
    """What is read and what is written, but for locations and lengths."""

    read: Sequence[Rows]
    written: Sequence[Rows]

    @property
    def widest(self) -> tuple[int, int]:
        """Of the widest load and of the widest store that memory allows; 0 without any."""
        load, store = (max((rows.widest for rows in each), default=0) for each in self)
        return load, store


def moved(read: Iterable[Tensor], written: Iterable[Tensor]) -> Moved:
    """Of tensors whose first axis says which row."""
    return Moved(plain_rows(read), plain_rows(written))


def plain_rows(tensors: Iterable[Tensor]) -> list[Rows]:
    """Of tensors whose first axis says which row."""
    return [Rows(tensor) for tensor in tensors]


def tiled_rows(buffer: Tensor, tiles: RowTiles, *, whole_pages: bool = False) -> Rows:
    """Tokens, or pages, of a buffer of tiles."""
    levels = (*tiles.token, *tiles.row)
    shape = (buffer.numel() // tiles.page_stride, *(extent for extent, _ in levels))
    strides = (tiles.page_stride, *(stride for _, stride in levels))
    lead = 1 if whole_pages else 1 + len(tiles.token)
    return Rows(buffer.as_strided(shape, strides), lead)


def index_rows(pages: Tensor, width: int, layout: IndexLayout) -> list[Rows]:
    """Keys and scales of the tokens of index pages."""
    size = pages.shape[1] // (width + SCALE_BYTES)
    tile = key_tile(size, width, layout)
    piece = KEY_TILE if tile > 1 else width
    count, at = pages.shape[0], size * width
    keys = pages[:, :at].view(count, size // tile, width // piece, tile, piece)
    scales = pages[:, at : at + size * SCALE_BYTES].view(count, size, SCALE_BYTES)
    return [Rows(torch.movedim(keys, 3, 2), 3), Rows(scales, 2)]
