"""Read the index keys of a batch of requests from their pages, in one launch."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from kvproto.kernels.index_page import IndexLayout

from .index_pages import dense_tokens, page_shapes
from .launch import Launch, the_device
from .load_index_keys import load_parts, tokens_of_a_program
from .rows import address

__all__ = ["gather_index_keys_kernel", "plan_gather_index_keys"]


@triton.jit
def _clear(pages, rows, first, end, PARTS: tl.constexpr, TOKENS: tl.constexpr):
    """Zeros to rows `first .. end - 1`."""
    for start in range(first, end, TOKENS):
        token = start + tl.arange(0, TOKENS)
        none = tl.zeros([TOKENS], tl.int64)
        load_parts(pages, none, none > 0, rows, token, token < end, PARTS)


@triton.jit(do_not_specialize=["total", "slots", "limit", "page_indices_pitch"])
def gather_index_keys_kernel(
    seq_lens,
    ends,
    page_indices,
    page_indices_pitch,
    limit,
    total,
    slots,
    pages,
    rows,
    PARTS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Program `(c, r)` has the keys `c * TOKENS ..` of request `r`, if it has so many.

    The last of a request has what its `limit` keys in pages leave of its length, the last of all
    what lengths leave of the total: zeros, and nothing where lengths are what they are said to be.
    """
    PAGE_SIZE: tl.constexpr = PARTS[0].PAGE_SIZE
    request = tl.program_id(1).to(tl.int64)
    length = tl.load(seq_lens + request).to(tl.int64)
    begin = tl.load(ends + request) - length
    position = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    column, token = position // PAGE_SIZE, begin + position
    kept = (position < length) & (position < limit) & (token < total)
    place = request * page_indices_pitch + column
    page = tl.load(page_indices + place, mask=kept, other=0).to(tl.int64)
    slot = page * PAGE_SIZE + position % PAGE_SIZE
    slot = tl.where(page < 0, 0, slot)
    load_parts(pages, slot, slot < slots, rows, token, kept, PARTS)
    if tl.program_id(0) == tl.num_programs(0) - 1:
        end = tl.minimum(begin + length, total)
        _clear(pages, rows, begin + limit, end, PARTS, TOKENS)
        if tl.program_id(1) == tl.num_programs(1) - 1:
            _clear(pages, rows, tl.maximum(end, 0), total, PARTS, TOKENS)


def plan_gather_index_keys(
    pages: Tensor,
    seq_lens: Tensor,
    page_indices: Tensor,
    keys: Tensor,
    scales: Tensor,
    layout: IndexLayout = "token_rows",
) -> Launch:
    """To dense keys `[sum of seq_lens, width]` and scales `[sum of seq_lens, 4]`.

    The grid has a place for the longest request that the sum and the columns allow, so that
    nobody waits for lengths. What they leave of the rows is zeros, where there is a page at all.
    """
    seq_lens, page_indices = seq_lens.contiguous(), dense_tokens(page_indices)
    rows, total = (keys, scales), keys.shape[0]
    parts = page_shapes(pages, keys, scales, layout)
    requests, columns = page_indices.shape
    limit = columns * parts[0].PAGE_SIZE
    longest = min(total, limit)
    tokens = tokens_of_a_program(total, keys.shape[1])
    return Launch(
        kernel=gather_index_keys_kernel,
        grid=(triton.cdiv(longest, tokens), requests),
        arguments={
            "seq_lens": seq_lens,
            "ends": seq_lens.cumsum(0, dtype=torch.int64),
            "page_indices": page_indices,
            "page_indices_pitch": page_indices.stride(0),
            "limit": limit,
            "total": total,
            "slots": pages.shape[0] * parts[0].PAGE_SIZE,
            "pages": tuple(address(pages, part.WORD) for part in parts),
            "rows": tuple(address(r, part.WORD) for r, part in zip(rows, parts, strict=True)),
        },
        constants={
            "PARTS": parts,
            "TOKENS": tokens,
        },
        device=the_device("gather_index_keys", [pages, seq_lens, page_indices, *rows]),
    )
