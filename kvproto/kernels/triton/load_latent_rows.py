"""Read latent rows as their two parts, in another dtype or in their own."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fp8 import FORMATS, fp8_values
from .launch import Launch, the_device
from .packed_latent import check_floats

__all__ = ["load_latent_rows_kernel", "plan_load_latent_rows"]

_TOKENS = 4


@triton.jit
def _load_part(source, out, slot, token, kept, exists, WIDTH: tl.constexpr, FORMAT: tl.constexpr):
    BLOCK: tl.constexpr = triton.next_power_of_2(WIDTH)
    column = tl.arange(0, BLOCK)
    within = (column < WIDTH)[None, :]
    values = tl.load(source + column[None, :], mask=kept[:, None] & within, other=0)
    if FORMAT is not None:
        values = fp8_values(values, FORMAT)
    into = out + token[:, None] * WIDTH + column[None, :]
    tl.store(into, values.to(out.dtype.element_ty), mask=exists[:, None] & within)


@triton.jit(do_not_specialize=["n", "slots"])
def load_latent_rows_kernel(
    source,
    loc,
    latent,
    rope,
    n,
    slots,
    PITCH: tl.constexpr,
    RANK: tl.constexpr,
    ROPE: tl.constexpr,
    FORMAT: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """What is not in `1 .. slots - 1` is zeros, and nothing is read for it."""
    token = tl.program_id(0).to(tl.int64) * TOKENS + tl.arange(0, TOKENS)
    slot = tl.load(loc + token, mask=token < n, other=0).to(tl.int64)
    kept = (slot > 0) & (slot < slots)
    row = source + slot[:, None] * PITCH
    _load_part(row, latent, slot, token, kept, token < n, RANK, FORMAT)
    if ROPE > 0:
        _load_part(row + RANK, rope, slot, token, kept, token < n, ROPE, FORMAT)


def plan_load_latent_rows(source: Tensor, loc: Tensor, latent: Tensor, rope: Tensor) -> Launch:
    """The rows at `loc` to dense `[n, 1, rank]` and `[n, 1, rope]`, zeros for 0 and below.

    `source` is `[slots, 1, rank + rope]` viewed in what its elements mean, fp8 too.

    :raises TypeError: for a dtype that is not served.
    :raises ValueError: for a source whose rows are not dense.
    """
    operation, rank = "load_latent_rows", latent.shape[-1]
    device = the_device(operation, (source, loc, latent, rope))
    fp8 = source.dtype in FORMATS
    check_floats(operation, latent.dtype, rope.dtype, *(() if fp8 else (source.dtype,)))
    if source.stride(-1) != 1:
        raise ValueError(f"{operation}: rows of the source are not dense; served are dense rows")
    return Launch(
        kernel=load_latent_rows_kernel,
        grid=(triton.cdiv(loc.shape[0], _TOKENS),),
        arguments={
            "source": source.view(torch.uint8) if fp8 else source,
            "loc": loc.contiguous(),
            "latent": latent,
            "rope": rope,
            "n": loc.shape[0],
            "slots": source.shape[0],
        },
        constants={
            "PITCH": source.stride(0),
            "RANK": rank,
            "ROPE": rope.shape[-1],
            "FORMAT": FORMATS[source.dtype] if fp8 else None,
            "TOKENS": _TOKENS,
        },
        device=device,
    )
