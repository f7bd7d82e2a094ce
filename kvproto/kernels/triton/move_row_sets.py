"""Copy rows between the same locations of many buffers, in one launch.

All sources must be read before any target is written, and a GPU has no cheap barrier across
programs. So a program has some columns of one buffer and all pairs of locations: no other program
touches those columns, and a barrier within the program is enough. Up to `IN_REGISTERS` pairs
are held in registers between reading and writing; `move_staged` moves more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import triton
import triton.language as tl
from torch import Tensor

from ..row_tiles import RowTiles
from .launch import Launch, next_power_of_2, the_device
from .move_staged import plan_move_staged
from .moved_rows import MovedShape, along, dense_shape, pairs, row_at, tiled_shape
from .pointer_table import pointer_table
from .rows import word_type

__all__ = [
    "IN_REGISTERS",
    "move_row_sets_kernel",
    "plan_move_row_sets",
    "plan_move_tiled_row_sets",
    "plan_moves",
]

_FEW, IN_REGISTERS = 32, 256
"""Pairs of a tile: compiled for two numbers only, neither of which follows the batch."""

_CHUNK_BYTES = 128
"""Of a row that a program moves: whole sectors, and enough programs for a few buffers."""

_CHUNK_WORDS = 16
"""Of a row in tiles, whose words are found one by one."""


@triton.jit(do_not_specialize=["n", "slots"])
def move_row_sets_kernel(
    tgt_loc,
    src_loc,
    n,
    slots,
    buffers,
    SHAPE: tl.constexpr,
    WORD: tl.constexpr,
    PAIRS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Program `(c, b)` has columns `c * COLUMNS ..` of buffer `b`."""
    address = tl.load(buffers + tl.program_id(1)).to(tl.pointer_type(WORD))
    column = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    base = tl.multiple_of(address, SHAPE.UNIT * SHAPE.WORD)
    buffer = base + along(column, SHAPE)[None, :]
    target, source, kept = pairs(tgt_loc, src_loc, 0, n, slots, PAIRS)
    mask = kept[:, None] & (column < SHAPE.WIDTH)[None, :]
    words = tl.load(buffer + row_at(source, SHAPE)[:, None], mask=mask)
    tl.debug_barrier()
    tl.store(buffer + row_at(target, SHAPE)[:, None], words, mask=mask)


def plan_move_row_sets(
    buffers: Sequence[Tensor], tgt_loc: Tensor, src_loc: Tensor, operation: str = "move_row_sets"
) -> Iterator[Launch]:
    """`buffer[tgt_loc[i]] = buffer[src_loc[i]]` for every buffer; dense `[n]` locations.

    One launch for all buffers of a kind of row; more where there are more than 256 pairs.

    :raises ValueError: for a buffer whose rows are not dense.
    """
    if buffers:
        the_device(operation, [tgt_loc, src_loc, *buffers])
    kinds = [
        (dense_shape(buffer, operation), buffer.shape[0], buffer)
        for buffer in buffers
        if buffer[:1].nbytes
    ]
    yield from _of_kinds(kinds, tgt_loc, src_loc)


def plan_move_tiled_row_sets(
    buffers: Sequence[Tensor], tgt_loc: Tensor, src_loc: Tensor, tiles: RowTiles
) -> Iterator[Launch]:
    """As `plan_move_row_sets`, for rows in tiles of dense buffers."""
    if buffers:
        the_device("move_tiled_row_sets", [tgt_loc, src_loc, *buffers])
    kinds = [(tiled_shape(each, tiles), tiles.slots_of(each), each) for each in buffers]
    yield from _of_kinds(kinds, tgt_loc, src_loc)


def plan_moves(
    shape: MovedShape, slots: int, buffers: Sequence[Tensor], tgt_loc: Tensor, src_loc: Tensor
) -> Iterator[Launch]:
    """Rows of one kind, in buffers of as many slots."""
    n, table = tgt_loc.shape[0], pointer_table(buffers)
    if n > IN_REGISTERS:
        yield from plan_move_staged(shape, slots, table, tgt_loc, src_loc)
        return
    widest = _CHUNK_BYTES // shape.WORD if shape.TILES is None else _CHUNK_WORDS
    columns = min(widest, next_power_of_2(shape.WIDTH))
    yield Launch(
        kernel=move_row_sets_kernel,
        grid=(triton.cdiv(shape.WIDTH, columns) if n else 0, len(buffers)),
        arguments={
            "tgt_loc": tgt_loc,
            "src_loc": src_loc,
            "n": n,
            "slots": slots,
            "buffers": table,
        },
        constants={
            "SHAPE": shape,
            "WORD": word_type(shape.WORD),
            "PAIRS": _FEW if n <= _FEW else IN_REGISTERS,
            "COLUMNS": columns,
        },
        device=tgt_loc.device,
        threads=128 if n <= _FEW else 256,
    )


def _of_kinds(
    found: Iterable[tuple[MovedShape, int, Tensor]], tgt_loc: Tensor, src_loc: Tensor
) -> Iterator[Launch]:
    kinds: dict[tuple[MovedShape, int], list[Tensor]] = {}
    for shape, slots, buffer in found:
        kinds.setdefault((shape, slots), []).append(buffer)
    for (shape, slots), alike in kinds.items():
        yield from plan_moves(shape, slots, alike, tgt_loc, src_loc)
