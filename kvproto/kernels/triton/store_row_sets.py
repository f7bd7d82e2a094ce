"""Write several kinds of row to the same locations, in one launch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import triton
import triton.language as tl
from torch import Tensor

from .launch import Launch, the_device
from .rows import address, along_given, pieces_apart, row_shape, rows_of_a_tile, walked

__all__ = ["plan_store_row_sets", "store_row", "store_row_sets_kernel"]

_MANY = 4096
"""Rows from which on a program has several of them in flight, instead of more programs."""

_TILE_BYTES, _LARGE_TILE_BYTES = 2048, 8192


@triton.jit
def store_row(target, rows, rows_pitch, apart, slot, token, kept, SHAPE: tl.constexpr):
    """Rows `token` (int64) to slots `slot` where `kept`, all `[TOKENS]`; distances in units."""
    into = target + slot.to(tl.int64)[:, None] * SHAPE.PITCH
    source = rows + token[:, None] * rows_pitch * SHAPE.UNIT
    for start in tl.static_range(0, SHAPE.WIDTH, SHAPE.BLOCK):
        column = start + tl.arange(0, SHAPE.BLOCK)
        mask = kept[:, None] & (column < SHAPE.WIDTH)[None, :]
        words = tl.load(source + along_given(column, apart, SHAPE)[None, :], mask=mask)
        tl.store(into + column[None, :], words, mask=mask)


@triton.jit(do_not_specialize=["n", "slots"])
def store_row_sets_kernel(
    loc,
    n,
    slots,
    targets,
    rows,
    rows_pitches,
    aparts,
    SHAPES: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """A program has the same `TOKENS` rows of every set; what is dropped is neither read."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0)
    kept = (slot > 0) & (slot < slots)
    for i in tl.static_range(len(targets)):
        pitch, apart = rows_pitches[i], aparts[i]
        store_row(targets[i], rows[i], pitch, apart, slot, token, kept, SHAPES[i])


def plan_store_row_sets(loc: Tensor, sets: Sequence[tuple[Tensor, Tensor]]) -> Launch:
    """`target[loc[i]] = rows[i]` for every `(target, rows)`, as `store_row_sets` has checked them.

    All targets have as many slots, or those of the smallest count. Rows of a width of nothing are
    left out.

    :raises ValueError: for a target whose rows are not dense.
    """
    sets = [(target, walked(rows)) for target, rows in sets if target[:1].nbytes]
    shapes = tuple(row_shape(target, rows, "store_row_sets") for target, rows in sets)
    n, words = loc.shape[0], [shape.WORD for shape in shapes]
    tile = _LARGE_TILE_BYTES if n >= _MANY else _TILE_BYTES
    tokens = rows_of_a_tile(tile, max((shape.row_bytes for shape in shapes), default=tile))
    return Launch(
        kernel=store_row_sets_kernel,
        grid=(triton.cdiv(n, tokens) if sets else 0,),
        arguments={
            "loc": loc.contiguous(),
            "n": n,
            "slots": min((target.shape[0] for target, _ in sets), default=0),
            "targets": tuple(address(t, word) for (t, _), word in zip(sets, words, strict=True)),
            "rows": tuple(address(r, word) for (_, r), word in zip(sets, words, strict=True)),
            "rows_pitches": tuple(
                rows.stride(0) * rows.itemsize // shape.unit_bytes
                for (_, rows), shape in zip(sets, shapes, strict=True)
            ),
            "aparts": tuple(
                pieces_apart(rows, shape.unit_bytes)
                for (_, rows), shape in zip(sets, shapes, strict=True)
            ),
        },
        constants={"SHAPES": shapes, "TOKENS": tokens},
        device=the_device("store_row_sets", [loc, *chain.from_iterable(sets)]),
    )
