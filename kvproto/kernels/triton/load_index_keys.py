"""Read index keys and their scales at slots, in one launch."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from kvproto.kernels.index_page import IndexLayout

from .index_pages import page_shapes, place_in_page, place_in_part, within
from .launch import Launch, the_device
from .rows import address, rows_of_a_tile

__all__ = ["load_index_keys_kernel", "load_parts", "plan_load_index_keys", "tokens_of_a_program"]

_MANY = 4096
"""Keys from which on a program has several rounds of them in flight."""

_TILE_BYTES, _LARGE_TILE_BYTES = 2048, 8192


@triton.jit
def load_parts(pages, slot, readable, rows, token, kept, PARTS: tl.constexpr):
    """Keys and scales at `slot` (int64) to dense rows `token` (int64) where `kept`; all `[TOKENS]`.

    Zeros for a slot that is not `readable`.
    """
    for i in tl.static_range(len(PARTS)):
        _load_part(pages[i], slot, readable, rows[i], token, kept, PARTS[i])


@triton.jit
def _load_part(pages, slot, readable, rows, token, kept, PART: tl.constexpr):
    column = tl.arange(0, PART.BLOCK)[None, :]
    source = pages + place_in_page(slot, PART)[:, None] + place_in_part(column, PART)
    words = tl.load(source, mask=within(kept & readable, PART), other=0)
    into = rows + token[:, None] * PART.WIDTH + column
    tl.store(into, words, mask=within(kept, PART))


@triton.jit(do_not_specialize=["n", "slots"])
def load_index_keys_kernel(
    loc,
    n,
    slots,
    pages,
    rows,
    PARTS: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """A program has `TOKENS` slots; one below 0 reads the reserved slot."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    slot = tl.where(slot > 0, slot, 0)
    load_parts(pages, slot, slot < slots, rows, token, token < n, PARTS)


def plan_load_index_keys(
    pages: Tensor, loc: Tensor, keys: Tensor, scales: Tensor, layout: IndexLayout = "token_rows"
) -> Launch:
    """The index slots `loc` to dense keys `[n, width]` and scales `[n, 4]`."""
    rows, n = (keys, scales), loc.shape[0]
    parts = page_shapes(pages, keys, scales, layout)
    tokens = tokens_of_a_program(n, keys.shape[1])
    return Launch(
        kernel=load_index_keys_kernel,
        grid=(triton.cdiv(n, tokens),),
        arguments={
            "loc": loc.contiguous(),
            "n": n,
            "slots": pages.shape[0] * parts[0].PAGE_SIZE,
            "pages": tuple(address(pages, part.WORD) for part in parts),
            "rows": tuple(address(r, part.WORD) for r, part in zip(rows, parts, strict=True)),
        },
        constants={"PARTS": parts, "TOKENS": tokens},
        device=the_device("load_index_keys", [pages, loc, *rows]),
    )


def tokens_of_a_program(n: int, key_bytes: int) -> int:
    """How many of `n` keys a program has."""
    return rows_of_a_tile(_LARGE_TILE_BYTES if n >= _MANY else _TILE_BYTES, key_bytes)
