"""Write index keys and their scales."""

from __future__ import annotations

import torch
from torch import Tensor

from .apart import apart
from .index_arguments import check_index_loc, check_index_pages, check_index_rows
from .index_page import SCALE_BYTES, IndexLayout, page_parts
from .triton_devices import served_by_triton

__all__ = ["store_index_keys"]


def store_index_keys(
    pages: Tensor,
    loc: Tensor,
    keys: Tensor,
    scales: Tensor,
    layout: IndexLayout = "token_rows",
) -> None:
    """Put the bytes of key and scale `i` at index slot `loc[i]`, if that is at least 1.

    `pages` is uint8 `[pages, bytes of a page]`, dense, its slot 0 zero; `keys` is uint8
    `[n, width]`, `scales` uint8 `[n, 4]`, of any strides; `loc` is `[n]`, int32 or int64, in range.
    Of duplicate slots one wins whole; in a kernel, each of its accesses of up to 16 bytes.
    Fixed-shape: what is dropped is zeros for slot 0 or, in a kernel, is not touched; a kernel drops
    slots past the last too.

    :raises ValueError: for pages that are not dense, of another dtype or not of whole keys and
        tiles, and for keys or scales of another number, width or dtype; nothing is written.
    :raises IndexError: on the CPU, for a slot past the last; nothing is written.
    """
    _check(pages, loc, keys, scales, layout)
    if served_by_triton(pages):
        _launch(pages, loc, keys, scales, layout)
        return
    parts = page_parts(pages, keys.shape[1], layout)
    kept, slots = (loc > 0).unsqueeze(-1), loc.clamp(min=0)
    for part, given in zip(parts, (keys, scales), strict=True):
        rows = torch.where(kept, given, torch.zeros_like(given[:1]))
        part.units.index_copy_(0, part.rows(slots), rows.reshape(-1, part.units.shape[1]))


def _check(pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout) -> None:
    width = keys.shape[-1]
    check_index_pages("store_index_keys", pages, width, layout)
    check_index_loc(pages, loc, width)
    for rows, wanted in ((keys, width), (scales, SCALE_BYTES)):
        check_index_rows("store_index_keys", rows, loc.shape[0], wanted, (torch.uint8,))


def _launch(pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout) -> None:
    from .triton.launch import run
    from .triton.store_index_keys import plan_store_index_keys

    given = apart(keys, pages), apart(scales, pages)
    run(plan_store_index_keys(pages, loc, *given, layout))
