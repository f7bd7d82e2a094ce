"""Read rows at locations."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from .launch import Launch, the_device
from .rows import address, row_shape, rows_of_a_tile

__all__ = ["gather_rows_kernel", "plan_gather_rows"]

_MANY = 4096
_TILE_BYTES, _LARGE_TILE_BYTES = 2048, 8192


@triton.jit(do_not_specialize=["n", "slots"])
def gather_rows_kernel(
    source,
    loc,
    out,
    n,
    slots,
    SHAPE: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """What is not in `1 .. slots - 1` is zeros, and nothing is read for it."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    for start in tl.static_range(0, SHAPE.WIDTH, SHAPE.BLOCK):
        column = start + tl.arange(0, SHAPE.BLOCK)
        within = (column < SHAPE.WIDTH)[None, :]
        place = slot[:, None] * SHAPE.PITCH + column[None, :]
        words = tl.load(source + place, mask=kept[:, None] & within, other=0)
        into = out + token[:, None] * SHAPE.WIDTH + column[None, :]
        tl.store(into, words, mask=(token < n)[:, None] & within)


def plan_gather_rows(source: Tensor, loc: Tensor, out: Tensor) -> Launch:
    """`out[i] = source[loc[i]]`, zeros for 0 and below and past the last; `out` is dense.

    :raises ValueError: for a source whose rows are not dense.
    """
    device = the_device("gather_rows", (source, loc, out))
    n, empty = loc.shape[0], not out.nbytes
    shape = row_shape(source, source if empty else out, "gather_rows")
    tile = _LARGE_TILE_BYTES if n >= _MANY else _TILE_BYTES
    tokens = rows_of_a_tile(tile, shape.row_bytes)
    return Launch(
        kernel=gather_rows_kernel,
        grid=(0 if empty else triton.cdiv(n, tokens),),
        arguments={
            "source": address(source, shape.WORD),
            "loc": loc.contiguous(),
            "out": address(out, shape.WORD),
            "n": n,
            "slots": source.shape[0],
        },
        constants={"SHAPE": shape, "TOKENS": tokens},
        device=device,
    )
