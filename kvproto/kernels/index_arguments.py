"""Refuse what is no index page, or no keys for one, before anything is read or written."""

from __future__ import annotations

import torch
from torch import Tensor

from .index_page import SCALE_BYTES, IndexLayout, index_page_size, key_tile
from .locations import check_locations

__all__ = ["check_index_loc", "check_index_pages", "check_index_rows"]


def check_index_pages(
    operation: str, pages: Tensor, index_head_dim: int, layout: IndexLayout
) -> None:
    """Whether pages are dense uint8 `[pages, bytes of a page]`, of whole keys and tiles.

    :raises ValueError: naming the operation, what they are and must be.
    """
    key_bytes = index_head_dim + SCALE_BYTES
    if pages.dtype != torch.uint8 or pages.dim() != 2 or pages.shape[1] % key_bytes:
        raise ValueError(
            f"{operation}: pages are {pages.dtype} {tuple(pages.shape)}, {layout}; served are "
            f"torch.uint8 [pages, a multiple of {key_bytes}] for keys of {index_head_dim} bytes "
            f"and scales of {SCALE_BYTES}; nothing was written"
        )
    if not pages.is_contiguous():
        raise ValueError(
            f"{operation}: pages {tuple(pages.shape)} have strides {pages.stride()}, {layout}; "
            "served are dense pages, one after another; nothing was written"
        )
    key_tile(index_page_size(pages, index_head_dim), index_head_dim, layout)


def check_index_loc(pages: Tensor, loc: Tensor, index_head_dim: int) -> None:
    """Whether index slots are such and, on the CPU, in pages that `check_index_pages` took.

    :raises TypeError: as `check_locations`; ValueError and IndexError too.
    """
    check_locations(loc, pages.shape[0] * index_page_size(pages, index_head_dim))


def check_index_rows(
    operation: str, rows: Tensor, n: int, width: int, served: tuple[torch.dtype, ...]
) -> None:
    """Whether there is a row of `width` for each of `n` locations, of a dtype that is served.

    :raises ValueError: naming the operation, what they are and must be.
    """
    if rows.dtype not in served or rows.shape != (n, width):
        names = " or ".join(map(str, served))
        raise ValueError(
            f"{operation}: rows are {rows.dtype} {tuple(rows.shape)}; served are {names} "
            f"{(n, width)} for {n} locations; nothing was written"
        )
