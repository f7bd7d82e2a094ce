"""Read the index keys of a batch of requests from their pages."""

from __future__ import annotations

import torch
from torch import Tensor

from .index_arguments import check_index_pages
from .index_page import SCALE_BYTES, IndexLayout
from .load_index_keys import load_index_keys
from .triton_devices import served_by_triton

__all__ = ["gather_index_keys"]


def gather_index_keys(
    pages: Tensor,
    seq_lens: Tensor,
    page_indices: Tensor,
    seq_len_sum: int,
    index_page_size: int,
    index_head_dim: int,
    layout: IndexLayout = "token_rows",
) -> tuple[Tensor, Tensor]:
    """Keys `[seq_len_sum, index_head_dim]` and scales `[seq_len_sum, 4]`, request after request.

    Request `r` has `seq_lens[r]` keys in the pages `page_indices[r]`; what follows those in
    its row is not read. `seq_len_sum` is the sum of `seq_lens`, so that shapes are known without
    the data. A negative page reads as the reserved one's first slot. `pages` and `layout` as in
    `store_index_keys`.

    Where the two do not fit, keys that `seq_len_sum` counts and no request has in its pages are
    zeros in a kernel.

    :raises ValueError: for pages as in `store_index_keys`, and for those that do not have
        `index_page_size` keys of `index_head_dim`.
    :raises IndexError: on the CPU, for keys that no request has.
    """
    check_index_pages("gather_index_keys", pages, index_head_dim, layout)
    _check_pages(pages, index_page_size, index_head_dim)
    if served_by_triton(pages):
        new = pages.new_empty if page_indices.numel() else pages.new_zeros
        keys, scales = (new(seq_len_sum, width) for width in (index_head_dim, SCALE_BYTES))
        _launch(pages, seq_lens, page_indices, keys, scales, layout)
        return keys, scales
    ends = seq_lens.to(torch.int64).cumsum(0)
    token = torch.arange(seq_len_sum, device=pages.device)
    request = torch.searchsorted(ends, token, right=True)
    position = token - (ends - seq_lens)[request]
    column = position.div(index_page_size, rounding_mode="floor")
    page = page_indices[request, column].to(torch.int64)
    slot = page * index_page_size + (position - column * index_page_size)
    return load_index_keys(pages, slot, index_head_dim, layout)


def _check_pages(pages: Tensor, page_size: int, index_head_dim: int) -> None:
    found = pages.shape[1] // (index_head_dim + SCALE_BYTES)
    if found != page_size:
        raise ValueError(
            f"pages of {pages.shape[1]} bytes have {found} keys of {index_head_dim} bytes and "
            f"their scales, not index_page_size={page_size}; nothing was read"
        )


def _launch(
    pages: Tensor,
    seq_lens: Tensor,
    page_indices: Tensor,
    keys: Tensor,
    scales: Tensor,
    layout: IndexLayout,
) -> None:
    from .triton.gather_index_keys import plan_gather_index_keys
    from .triton.launch import run

    run(plan_gather_index_keys(pages, seq_lens, page_indices, keys, scales, layout))
