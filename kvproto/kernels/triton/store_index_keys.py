"""Write index keys and their scales to pages, in one launch."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kvproto.kernels.index_page import IndexLayout

from .index_pages import dense_tokens, page_shapes, place_in_page, place_in_part, within
from .launch import Launch, the_device
from .rows import address, rows_of_a_tile

__all__ = ["plan_store_index_keys", "store_index_keys_kernel"]

_MANY = 4096
"""Keys from which on a program has several rounds of them in flight."""

_TILE_BYTES, _LARGE_TILE_BYTES = 2048, 8192


@triton.jit
def store_part(pages, slot, rows, rows_pitch, token, kept, PART: tl.constexpr):
    """Rows `token` to slots `slot` where `kept`, all `[TOKENS]`; `rows_pitch` in units."""
    column, mask = tl.arange(0, PART.BLOCK)[None, :], within(kept, PART)
    words = tl.load(rows + token[:, None] * rows_pitch * PART.UNIT + column, mask=mask)
    into = pages + place_in_page(slot, PART)[:, None] + place_in_part(column, PART)
    tl.store(into, words, mask=mask)


@triton.jit(do_not_specialize=["n", "slots"])
def store_index_keys_kernel(
    loc,
    n,
    slots,
    pages,
    rows,
    rows_pitches,
    PARTS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """A program has `TOKENS` keys and their scales; what is dropped is not read."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    for i in tl.static_range(len(PARTS)):
        store_part(pages[i], slot, rows[i], rows_pitches[i], token, kept, PARTS[i])


def plan_store_index_keys(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout = "token_rows"
) -> Launch:
    """Bytes of keys `[n, width]` and of scales `[n, 4]` to the index slots `loc`."""
    rows = dense_tokens(keys), dense_tokens(scales)
    parts, n = page_shapes(pages, *rows, layout), loc.shape[0]
    tokens = rows_of_a_tile(_LARGE_TILE_BYTES if n >= _MANY else _TILE_BYTES, keys.shape[1])
    return Launch(
        kernel=store_index_keys_kernel,
        grid=(triton.cdiv(n, tokens),),
        arguments={
            "loc": loc.contiguous(),
            "n": n,
            "slots": pages.shape[0] * parts[0].PAGE_SIZE,
            "pages": tuple(address(pages, part.WORD) for part in parts),
            "rows": tuple(address(r, part.WORD) for r, part in zip(rows, parts, strict=True)),
            "rows_pitches": tuple(
                r.stride(0) // part.unit_bytes for r, part in zip(rows, parts, strict=True)
            ),
        },
        constants={"PARTS": parts, "TOKENS": tokens},
        device=the_device("store_index_keys", [pages, loc, *rows]),
    )
