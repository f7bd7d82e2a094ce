"""Make one index key of the keys of several tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from .hadamard import hadamard
from .store_quantised_index_keys import quantise_index_keys

__all__ = ["pool_index_keys", "pooled_rows"]


def pool_index_keys(
    keys: Tensor, scores: Tensor, bias: Tensor, *, round_scale: bool
) -> tuple[Tensor, Tensor]:
    """The bytes of `[n, width]` pooled keys and of their float32 scales, `[n, 4]`; uint8 both.

    `keys` and `scores` are `[n, group, width]`, `bias` `[group, width]`, of any float dtype.
    Each element of a key is the mean over the group, weighed by the softmax of scores plus bias;
    it is rounded to bf16, rotated (`hadamard`), rounded again and stored as e4m3fn over the
    largest magnitude / 448, at least 1e-4 / 448, which `round_scale` rounds up to a power of two.
    """
    return quantise_index_keys(pooled_rows(keys, scores, bias), round_scale=round_scale)


def pooled_rows(keys: Tensor, scores: Tensor, bias: Tensor) -> Tensor:
    """The keys that `pool_index_keys` quantises: float32 `[n, width]`, of numbers of bf16."""
    weights = torch.softmax(scores.to(torch.float32) + bias.to(torch.float32), dim=1)
    mean = (keys.to(torch.float32) * weights).sum(1)
    return _as_bf16(hadamard(_as_bf16(mean)))


def _as_bf16(rows: Tensor) -> Tensor:
    return rows.to(torch.bfloat16).to(torch.float32)
