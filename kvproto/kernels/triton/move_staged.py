"""Copy rows between many pairs of locations of many buffers: out into other memory, and back in.

Every row is read by one launch and written by the next, so that sources may be targets, and each
launch has as many programs as there are tiles. What is staged at a time is bounded: where more
moves, some columns follow after others, of which neither launch touches the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launch import Launch, next_power_of_2
from .moved_rows import MovedShape, along, pairs, row_at
from .rows import BLOCK_BYTES, address, word_type

__all__ = ["move_staged_kernel", "plan_move_staged"]

_STAGED_BYTES = 256 << 20
"""Moving so much takes far longer than two launches, and it is little of any GPU's memory."""

_TILE_WORDS = 2048


@triton.jit(do_not_specialize=["n", "slots", "first"])
def move_staged_kernel(
    tgt_loc,
    src_loc,
    n,
    slots,
    buffers,
    first,
    staging,
    SHAPE: tl.constexpr,
    WORD: tl.constexpr,
    PAIRS: tl.constexpr,
    COLUMNS: tl.constexpr,
    READS: tl.constexpr,
):
    """Program `(t, i)` has `PAIRS` rows of part `first + i`: some `COLUMNS` of some buffer."""
    PARTS: tl.constexpr = (SHAPE.WIDTH + COLUMNS - 1) // COLUMNS
    part = first + tl.program_id(1).to(tl.int64)
    base = tl.load(buffers + part // PARTS).to(tl.pointer_type(WORD))
    beside = tl.arange(0, COLUMNS).to(tl.int64)
    column = part % PARTS * COLUMNS + beside
    buffer = tl.multiple_of(base, SHAPE.UNIT * SHAPE.WORD) + along(column, SHAPE)[None, :]
    start = tl.program_id(0).to(tl.int64) * PAIRS
    target, source, kept = pairs(tgt_loc, src_loc, start, n, slots, PAIRS)
    mask = kept[:, None] & (column < SHAPE.WIDTH)[None, :]
    pair = tl.program_id(1).to(tl.int64) * n + start + tl.arange(0, PAIRS)
    held = staging + pair[:, None] * COLUMNS + beside[None, :]
    if READS:
        words = tl.load(buffer + row_at(source, SHAPE)[:, None], mask=mask)
        tl.store(held, words, mask=mask)
    else:
        words = tl.load(held, mask=mask)
        tl.store(buffer + row_at(target, SHAPE)[:, None], words, mask=mask)


def plan_move_staged(
    shape: MovedShape, slots: int, table: Tensor, tgt_loc: Tensor, src_loc: Tensor
) -> Iterator[Launch]:
    """Rows of one kind in the buffers of a table; two launches, and two for each further 256 MiB.

    How many follows from shapes alone.
    """
    n, word = tgt_loc.shape[0], shape.WORD
    columns = min(BLOCK_BYTES // word, next_power_of_2(shape.WIDTH), _TILE_WORDS)
    parts = table.shape[0] * triton.cdiv(shape.WIDTH, columns)
    together = max(1, min(parts, _STAGED_BYTES // (n * columns * word), 65535))
    staging = tgt_loc.new_empty(together * n * columns * word, dtype=torch.uint8)
    rows = _TILE_WORDS // columns
    for first in range(0, parts, together):
        for reads in (True, False):
            yield Launch(
                kernel=move_staged_kernel,
                grid=(triton.cdiv(n, rows), min(together, parts - first)),
                arguments={
                    "tgt_loc": tgt_loc,
                    "src_loc": src_loc,
                    "n": n,
                    "slots": slots,
                    "buffers": table,
                    "first": first,
                    "staging": address(staging, word),
                },
                constants={
                    "SHAPE": shape,
                    "WORD": word_type(word),
                    "PAIRS": rows,
                    "COLUMNS": columns,
                    "READS": reads,
                },
                device=tgt_loc.device,
            )
