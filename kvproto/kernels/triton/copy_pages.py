"""Copy pages of all layers between a pool and contiguous memory, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

import triton
import triton.language as tl
from torch import Tensor

from .launch import Launch, the_device
from .pointer_table import pointer_table
from .rows import RowShape, address, row_shape, rows_of_a_tile, word_type

__all__ = ["copy_pages_kernel", "plan_copy_pages"]

_TILE_BYTES = 8192


@triton.jit(do_not_specialize=["last", "layer_pitch", "page_pitch", "token_pitch"])
def copy_pages_kernel(
    buffers,
    pages,
    outside,
    last,
    layer_pitch,
    page_pitch,
    token_pitch,
    SHAPE: tl.constexpr,
    WORD: tl.constexpr,
    PAGE_SIZE: tl.constexpr,
    TOKENS: tl.constexpr,
    INTO_POOL: tl.constexpr,
):
    """Program `(x, l)` has `TOKENS` rows of one page of layer `l`; pitches are in units."""
    STEPS: tl.constexpr = (PAGE_SIZE + TOKENS - 1) // TOKENS
    number = tl.program_id(0).to(tl.int64) // STEPS
    layer = tl.program_id(1).to(tl.int64)
    token = tl.program_id(0).to(tl.int64) % STEPS * TOKENS + tl.arange(0, TOKENS)
    page = tl.load(pages + number).to(tl.int64)
    kept = (token < PAGE_SIZE) & (page > 0) & (page < last)
    pool = tl.load(buffers + layer).to(tl.pointer_type(WORD))
    slot = page * PAGE_SIZE + token
    row = tl.multiple_of(pool, SHAPE.UNIT * SHAPE.WORD) + slot[:, None] * SHAPE.PITCH
    there = layer * layer_pitch + number * page_pitch + token * token_pitch
    memory = outside + there[:, None] * SHAPE.UNIT
    for start in tl.static_range(0, SHAPE.WIDTH, SHAPE.BLOCK):
        column = start + tl.arange(0, SHAPE.BLOCK)
        within = (column < SHAPE.WIDTH)[None, :]
        moved = kept[:, None] & within
        if INTO_POOL:
            words = tl.load(memory + column[None, :], mask=moved)
            tl.store(row + column[None, :], words, mask=moved)
        else:
            words = tl.load(row + column[None, :], mask=moved, other=0)
            exists = (token < PAGE_SIZE)[:, None] & within
            tl.store(memory + column[None, :], words, mask=exists)


def plan_copy_pages(
    buffers: Sequence[Tensor], pages: Tensor, outside: Tensor, *, into_pool: bool
) -> Launch:
    """Between `buffers` and `outside`, `[layers, n, page_size, width]`, which were checked.

    :raises ValueError: for rows that are not dense.
    """
    on_device = [outside] if not outside.is_cpu or not outside.is_pinned() else []
    device = the_device("copy_pages", [*buffers, pages, *on_device])
    if outside.stride(-1) != 1:
        raise ValueError("copy_pages: rows of contiguous pages are not dense; nothing was written")
    shape = _shape(buffers, outside)
    page_size = outside.shape[2]
    tokens = min(rows_of_a_tile(_TILE_BYTES, shape.row_bytes), 1 << (page_size - 1).bit_length())
    pitches = [stride * outside.itemsize // shape.unit_bytes for stride in outside.stride()[:3]]
    steps = triton.cdiv(page_size, tokens)
    return Launch(
        kernel=copy_pages_kernel,
        grid=(pages.shape[0] * steps if shape.WIDTH else 0, len(buffers)),
        arguments={
            "buffers": pointer_table(buffers),
            "pages": pages.contiguous(),
            "outside": address(outside, shape.WORD),
            "last": buffers[0].shape[0] // page_size,
            "layer_pitch": pitches[0],
            "page_pitch": pitches[1],
            "token_pitch": pitches[2],
        },
        constants={
            "SHAPE": shape,
            "WORD": word_type(shape.WORD),
            "PAGE_SIZE": page_size,
            "TOKENS": tokens,
            "INTO_POOL": into_pool,
        },
        device=device,
    )


def _shape(buffers: Sequence[Tensor], outside: Tensor) -> RowShape:
    """Rows of the pool, in units that divide every distance outside it as well."""
    shape = row_shape(buffers[0], buffers[0], "copy_pages")
    distances = [stride * outside.itemsize for stride in outside.stride()[:3]]
    starts = [buffer.data_ptr() for buffer in buffers]
    unit = gcd(shape.unit_bytes, outside.data_ptr(), *distances, *starts)
    word = min(unit, 8)
    of_word = shape.WORD // word
    return RowShape(
        PITCH=shape.PITCH * of_word,
        WIDTH=shape.WIDTH * of_word,
        INNER=shape.INNER * of_word,
        UNIT=unit // word,
        BLOCK=shape.BLOCK * of_word,
        WORD=word,
    )
