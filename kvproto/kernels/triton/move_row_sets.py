"""Copy rows between the same locations of many buffers, in one launch.

All sources must be read before any target is written, and a GPU has no cheap barrier across
programs. So a program has some columns of one buffer and all pairs of locations: no other program
touches those columns, and a barrier within the program is enough. Up to `_IN_REGISTERS` pairs
are held in registers between reading and writing. More are staged in memory, in as many launches as
keep what is staged at a time so small that a cache holds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .launch import Launch, next_power_of_2, the_device
from .pointer_table import pointer_table
from .rows import RowShape, address, row_shape, word_type

__all__ = ["move_row_sets_kernel", "pairs", "plan_move_row_sets"]

_FEW, _IN_REGISTERS = 32, 256
"""Pairs of a tile: compiled for two numbers only, neither of which follows the batch."""

_CHUNK_BYTES = 128
"""Of a row that a program moves: whole sectors, and enough programs for a few buffers."""

_STAGED_BYTES = 16 << 20


@triton.jit
def pairs(tgt_loc, src_loc, start, n, slots, PAIRS: tl.constexpr):
    """Targets, sources and which of them are moved; a source below 0 reads the reserved slot."""
    pair = start + tl.arange(0, PAIRS)
    target = tl.load(tgt_loc + pair, mask=pair < n, other=0).to(tl.int64)
    source = tl.load(src_loc + pair, mask=pair < n, other=0).to(tl.int64)
    source = tl.where(source > 0, source, 0)
    return target, source, (target > 0) & (target < slots) & (source < slots)


@triton.jit(do_not_specialize=["n", "slots", "first"])
def move_row_sets_kernel(
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
):
    """Program `(c, b)` has columns `c * COLUMNS ..` of buffer `first + b`."""
    address = tl.load(buffers + first + tl.program_id(1)).to(tl.pointer_type(WORD))
    column = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    buffer = tl.multiple_of(address, SHAPE.UNIT * SHAPE.WORD) + column[None, :]
    within = (column < SHAPE.WIDTH)[None, :]
    if staging is None:
        target, source, kept = pairs(tgt_loc, src_loc, 0, n, slots, PAIRS)
        mask = kept[:, None] & within
        words = tl.load(buffer + source[:, None] * SHAPE.PITCH, mask=mask)
        tl.debug_barrier()
        tl.store(buffer + target[:, None] * SHAPE.PITCH, words, mask=mask)
    else:
        program = tl.program_id(1).to(tl.int64) * tl.num_programs(0) + tl.program_id(0)
        held = staging + program * n * COLUMNS + tl.arange(0, COLUMNS)[None, :]
        for start in range(0, n, PAIRS):
            _, source, kept = pairs(tgt_loc, src_loc, start, n, slots, PAIRS)
            mask = kept[:, None] & within
            words = tl.load(buffer + source[:, None] * SHAPE.PITCH, mask=mask)
            pair = start + tl.arange(0, PAIRS).to(tl.int64)
            tl.store(held + pair[:, None] * COLUMNS, words, mask=mask)
        tl.debug_barrier()
        for start in range(0, n, PAIRS):
            target, _, kept = pairs(tgt_loc, src_loc, start, n, slots, PAIRS)
            mask = kept[:, None] & within
            pair = start + tl.arange(0, PAIRS).to(tl.int64)
            words = tl.load(held + pair[:, None] * COLUMNS, mask=mask)
            tl.store(buffer + target[:, None] * SHAPE.PITCH, words, mask=mask)


def plan_move_row_sets(
    buffers: Sequence[Tensor], tgt_loc: Tensor, src_loc: Tensor
) -> Iterator[Launch]:
    """`buffer[tgt_loc[i]] = buffer[src_loc[i]]` for every buffer; dense `[n]` locations.

    One launch for all buffers of a kind of row; several where there are more than 256 pairs.

    :raises ValueError: for a buffer whose rows are not dense.
    """
    if buffers:
        the_device("move_row_sets", [tgt_loc, src_loc, *buffers])
    kinds: dict[tuple[RowShape, int], list[Tensor]] = {}
    for buffer in buffers:
        if buffer[:1].nbytes:
            shape = row_shape(buffer, buffer, "move_row_sets")
            kinds.setdefault((shape, buffer.shape[0]), []).append(buffer)
    for (shape, slots), alike in kinds.items():
        yield from _launches(shape, slots, alike, tgt_loc, src_loc)


def _launches(
    shape: RowShape, slots: int, buffers: list[Tensor], tgt_loc: Tensor, src_loc: Tensor
) -> Iterator[Launch]:
    n, table = tgt_loc.shape[0], pointer_table(buffers)
    columns = min(_CHUNK_BYTES // shape.WORD, next_power_of_2(shape.WIDTH))
    chunks = triton.cdiv(shape.WIDTH, columns)
    words, staged, together = chunks * n * columns, n > _IN_REGISTERS, len(buffers)
    if staged:
        together = max(1, min(together, _STAGED_BYTES // (words * shape.WORD)))
    staged_bytes = together * words * shape.WORD
    staging = tgt_loc.new_empty(staged_bytes, dtype=torch.uint8) if staged else None
    for first in range(0, len(buffers), together):
        yield Launch(
            kernel=move_row_sets_kernel,
            grid=(chunks if n else 0, min(together, len(buffers) - first)),
            arguments={
                "tgt_loc": tgt_loc,
                "src_loc": src_loc,
                "n": n,
                "slots": slots,
                "buffers": table,
                "first": first,
                "staging": None if staging is None else address(staging, shape.WORD),
            },
            constants={
                "SHAPE": shape,
                "WORD": word_type(shape.WORD),
                "PAIRS": _FEW if n <= _FEW else _IN_REGISTERS,
                "COLUMNS": columns,
            },
            device=tgt_loc.device,
            threads=128 if n <= _FEW else 256,
        )
