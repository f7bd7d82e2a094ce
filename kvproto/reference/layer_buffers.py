"""A buffer for each layer, in the order of their addresses."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["zeros_by_layer"]


def zeros_by_layer(
    layer_num: int, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> list[Tensor]:
    """Zeroed buffers, an allocation each.

    Where an allocator goes downwards, as that of C libraries does for large blocks, the last
    layer gets the first block: layers that go up in even steps are copied many at once.
    """
    buffers = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layer_num)]
    return sorted(buffers, key=Tensor.data_ptr)
