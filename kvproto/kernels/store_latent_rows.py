"""Write latent rows from their two parts."""

from __future__ import annotations

import torch
from torch import Tensor

from .store_rows import store_rows
from .to_stored import to_stored

__all__ = ["store_latent_rows"]


def store_latent_rows(
    target: Tensor, loc: Tensor, latent: Tensor, rope: Tensor, dtype: torch.dtype
) -> None:
    """`target[loc[i]] = [latent[i], rope[i]]` in `dtype`, for every `loc[i]` of at least 1.

    `target` is `[slots, 1, rank + rope]` in the store dtype of `dtype`; the parts are
    `[n, 1, rank]` and `[n, 1, rope]` of any float dtype and strides. fp8 saturates. As
    `store_rows` otherwise.
    """
    parts = (to_stored(latent, dtype), to_stored(rope, dtype))
    store_rows(target, loc, torch.cat(parts, dim=-1))
