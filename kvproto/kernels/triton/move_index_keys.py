"""Copy index keys between the same slots of the pages of many layers, in one launch.

As in `move_row_sets`, all sources are read before any target is written by having a program hold
all pairs of some columns of one layer in registers, between reading and writing. More pairs than
that are rows in tiles, keys and scales each, and staged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import triton
import triton.language as tl
from torch import Tensor

from kvproto.kernels.index_page import IndexLayout

from .index_pages import PartShape, page_shapes, place_in_page, place_in_part
from .launch import Launch, the_device
from .move_row_sets import IN_REGISTERS
from .move_staged import plan_move_staged
from .moved_rows import MovedShape, pairs
from .pointer_table import pointer_table
from .rows import word_type
from .tiles import TileShape

__all__ = ["move_index_keys_kernel", "plan_move_index_keys"]

_FEW = 32
"""Pairs of a small tile."""

_CHUNK_BYTES = 128
"""Of a key that a program moves."""


@triton.jit(do_not_specialize=["n", "slots"])
def move_index_keys_kernel(
    tgt_loc,
    src_loc,
    n,
    slots,
    layers,
    KEYS: tl.constexpr,
    KEY_WORD: tl.constexpr,
    SCALES: tl.constexpr,
    SCALE_WORD: tl.constexpr,
    PAIRS: tl.constexpr,
):
    """Program `(c, l)` has `KEYS.BLOCK` columns of the keys of layer `l`; the first its scales."""
    base = tl.load(layers + tl.program_id(1))
    target, source, kept = pairs(tgt_loc, src_loc, 0, n, slots, PAIRS)
    column = tl.program_id(0).to(tl.int64) * KEYS.BLOCK + tl.arange(0, KEYS.BLOCK)
    keys = tl.multiple_of(base.to(tl.pointer_type(KEY_WORD)), KEYS.UNIT * KEYS.WORD)
    keys += place_in_part(column, KEYS)[None, :]
    has_key = kept[:, None] & (column < KEYS.WIDTH)[None, :]
    along = tl.arange(0, SCALES.BLOCK)
    scales = base.to(tl.pointer_type(SCALE_WORD)) + along[None, :]
    has_scale = kept[:, None] & ((along < SCALES.WIDTH) & (tl.program_id(0) == 0))[None, :]
    key = tl.load(keys + place_in_page(source, KEYS)[:, None], mask=has_key)
    scale = tl.load(scales + place_in_page(source, SCALES)[:, None], mask=has_scale)
    tl.debug_barrier()
    tl.store(keys + place_in_page(target, KEYS)[:, None], key, mask=has_key)
    tl.store(scales + place_in_page(target, SCALES)[:, None], scale, mask=has_scale)


def plan_move_index_keys(
    layers: Sequence[Tensor],
    tgt_loc: Tensor,
    src_loc: Tensor,
    index_head_dim: int,
    layout: IndexLayout = "token_rows",
) -> Iterator[Launch]:
    """Key and scale of `src_loc[i]` to `tgt_loc[i]` in every layer; one launch for up to 256 pairs.

    All layers have as many pages, or those of the smallest count.
    """
    device = the_device("move_index_keys", [tgt_loc, src_loc, *layers])
    shapes = (page_shapes(pages, index_head_dim, None, layout) for pages in layers)
    # Units are powers of two: the least goes for all layers.
    keys, scales = min(shapes, key=lambda parts: (parts[0].unit_bytes, parts[1].unit_bytes))
    n, slots = tgt_loc.shape[0], min(pages.shape[0] for pages in layers) * keys.PAGE_SIZE
    tgt_loc, src_loc = tgt_loc.contiguous(), src_loc.contiguous()
    if n > IN_REGISTERS:
        for part in (keys, scales):
            table = pointer_table([pages[:, part.FIRST * part.WORD :] for pages in layers])
            yield from plan_move_staged(_moved_shape(part), slots, table, tgt_loc, src_loc)
        return
    keys = keys._replace(BLOCK=min(keys.BLOCK, _CHUNK_BYTES // keys.WORD))
    yield Launch(
        kernel=move_index_keys_kernel,
        grid=(triton.cdiv(keys.WIDTH, keys.BLOCK) if n else 0, len(layers)),
        arguments={
            "tgt_loc": tgt_loc,
            "src_loc": src_loc,
            "n": n,
            "slots": slots,
            "layers": pointer_table(layers),
        },
        constants={
            "KEYS": keys,
            "KEY_WORD": word_type(keys.WORD),
            "SCALES": scales,
            "SCALE_WORD": word_type(scales.WORD),
            "PAIRS": _FEW if n <= _FEW else IN_REGISTERS,
        },
        device=device,
        threads=128 if n <= _FEW else 256,
    )


def _moved_shape(part: PartShape) -> MovedShape:
    """A part of pages as rows in tiles, from its first word on."""
    tokens = (part.TILE, part.PIECE), (part.PAGE_SIZE // part.TILE, part.TILE * part.WIDTH)
    row = (part.PIECE, 1), (part.WIDTH // part.PIECE, part.TILE * part.PIECE)
    tiles = TileShape(part.PAGE_SIZE, part.PITCH, tokens, row, part.WIDTH, part.WORD)
    return MovedShape(0, part.WIDTH, part.UNIT, part.WORD, tiles)
