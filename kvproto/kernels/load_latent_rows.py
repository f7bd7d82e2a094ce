"""Read latent rows as their two parts."""

from __future__ import annotations

import torch
from torch import Tensor

from .fp8 import FP8_DTYPES, to_fp8
from .gather_rows import gather_rows
from .locations import check_locations
from .triton_devices import served_by_triton

__all__ = ["load_latent_rows"]


def load_latent_rows(
    source: Tensor, loc: Tensor, rank: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The rows at `loc` in `dtype`, split after `rank` elements; two fresh, dense tensors.

    `source` is `[slots, 1, rank + rope]` viewed in what its elements mean. A location of 0 or
    below gives zeros; a cast to fp8 saturates.
    """
    if served_by_triton(loc) and dtype not in FP8_DTYPES:
        return _launched(source, loc, rank, dtype)
    stored = gather_rows(source.view(torch.uint8), loc).view(source.dtype)
    cast_to_fp8 = dtype in FP8_DTYPES and dtype != source.dtype
    rows = to_fp8(stored, dtype) if cast_to_fp8 else stored.to(dtype)
    return rows[..., :rank].contiguous(), rows[..., rank:].contiguous()


def _launched(source: Tensor, loc: Tensor, rank: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    from .triton.launch import run
    from .triton.load_latent_rows import plan_load_latent_rows

    check_locations(loc, source.shape[0])
    n, widths = loc.shape[0], (rank, source.shape[-1] - rank)
    latent, rope = (source.new_empty((n, 1, width), dtype=dtype) for width in widths)
    run(plan_load_latent_rows(source, loc, latent, rope))
    return latent, rope
