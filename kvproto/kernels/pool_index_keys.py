"""Make one index key of the keys of several tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from .fp8 import to_fp8
from .hadamard import hadamard

__all__ = ["pool_index_keys"]

_LARGEST = 448.0  # of e4m3fn
_SMALLEST_PEAK = 1e-4


def pool_index_keys(
    keys: Tensor, scores: Tensor, bias: Tensor, *, round_scale: bool
) -> tuple[Tensor, Tensor]:
    """The bytes of `[n, width]` pooled keys and of their float32 scales, `[n, 4]`; uint8 both.

    `keys` and `scores` are `[n, group, width]`, `bias` `[group, width]`, of any float dtype.
    Each element of a key is the mean over the group, weighed by the softmax of scores plus bias;
    it is rounded to bf16, rotated (`hadamard`), rounded again and stored as e4m3fn over the
    largest magnitude / 448, at least 1e-4 / 448, which `round_scale` rounds up to a power of two.
    """
    weights = torch.softmax(scores.to(torch.float32) + bias.to(torch.float32), dim=1)
    mean = (keys.to(torch.float32) * weights).sum(1)
    rotated = _as_bf16(hadamard(_as_bf16(mean)))
    scales = rotated.abs().amax(1, keepdim=True).clamp(min=_SMALLEST_PEAK) * (1 / _LARGEST)
    if round_scale:
        scales = torch.exp2(torch.ceil(torch.log2(scales)))
    elements = to_fp8(rotated / scales, torch.float8_e4m3fn)
    return elements.view(torch.uint8), scales.view(torch.uint8)


def _as_bf16(rows: Tensor) -> Tensor:
    return rows.to(torch.bfloat16).to(torch.float32)
