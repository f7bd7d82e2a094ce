"""Write latent rows from their two parts."""

from __future__ import annotations

import torch
from torch import Tensor

from .fp8 import FP8_DTYPES
from .store_fp8_row_sets import store_fp8_row_sets
from .store_row_sets import store_row_sets
from .store_rows import store_rows
from .to_stored import to_stored
from .triton_devices import served_by_triton

__all__ = ["store_latent_rows"]


def store_latent_rows(
    target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor, dtype: torch.dtype
) -> None:
    """`target[loc[i]] = [latent[i], rope[i]]` in `dtype`, for every `loc[i]` of at least 1.

    `target` is `[slots, 1, rank + rope]` in the store dtype of `dtype`; the parts are
    `[n, 1, rank]` and `[n, 1, rope]` of any float dtype and strides. fp8 saturates. As
    `store_rows` otherwise.
    """
    if served_by_triton(loc):
        _launch(target, loc, latent, rope, dtype)
        return
    parts = (to_stored(latent, dtype), to_stored(rope, dtype))
    store_rows(target, loc, torch.cat(parts, dim=-1))


def _launch(target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor, dtype: torch.dtype) -> None:
    """As two kinds of row: what the parts of a row are in the buffer are rows themselves."""
    rank = latent.shape[-1]
    into = (target[..., :rank], target[..., rank:])
    if dtype in FP8_DTYPES:
        store_fp8_row_sets(loc, ((into[0], latent, None), (into[1], rope, None)), dtype)
    else:
        stored = (to_stored(latent, dtype), to_stored(rope, dtype))
        store_row_sets(loc, tuple(zip(into, stored, strict=True)))
